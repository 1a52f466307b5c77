"""Where a text stops being JSON, and why, in words for whoever wrote it.

b'{"a": 1,}'   →  "line 1, column 9: expecting property name enclosed in double quotes"
"""


def not_json(data: bytes, error: Exception) -> str:
    """What is wrong with ``data``, which the decoder refused with ``error``.

    The standard library's reader knows the line and says what it expected there. What it
    would let pass, such as NaN, is told in the decoder's words.
    """
    import json

    try:
        json.loads(data)
    except json.JSONDecodeError as better:
        if not data.strip():
            return "it is empty"
        reason = (better.msg[0].lower() + better.msg[1:]).removesuffix(" at")
        return f"line {better.lineno}, column {better.colno}: {reason}"
    except UnicodeDecodeError:
        return "it is not UTF-8"
    except RecursionError:
        return "it is nested too deep"
    except ValueError:  # an integer of thousands of digits
        pass
    if "truncated" in str(error):
        return r"half of a surrogate pair, such as \ud800, stands alone"
    reason = str(error).removeprefix("JSON is malformed: ").partition(" - at `")[0]
    return reason[:1].lower() + reason[1:]
