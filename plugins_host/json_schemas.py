"""JSON Schemas applied: whether one is a schema, and how a value does not fit one.

Fetches nothing: a reference may lead into the schema itself, or to a published metaschema.
Loading the library takes longer than all the rest of reading a manifest, so that it is
loaded by the first call.
"""

from collections.abc import Iterable
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Final

import msgspec

if TYPE_CHECKING:
    from jsonschema.protocols import Validator

# Enough for all the components of an installation; a validator takes some 100 kB.
_KEPT_VALIDATORS: Final = 256


def violations(value: dict[str, Any], schema: dict[str, Any]) -> list[str]:
    """How a value does not fit: a place and a sentence each, by place; none when it fits.

    The sentences leave the value out. A schema that cannot be applied is a violation, too.
    """
    try:
        errors = list(_validator(msgspec.json.encode(schema)).iter_errors(value))
    except RecursionError:
        return ["$: the schema refers to itself without end"]
    except Exception as error:  # noqa: BLE001  a $ref that leads nowhere, of several classes
        return [f"$: the schema cannot be applied: {error}"]
    return [f"{each.json_path}: {_shortened(_told(each))}" for each in _ordered(errors)]


def _told(error: Any) -> str:
    """What a violation is, without the value: it may be a key, and this is logged."""
    message: str = error.message
    shown = repr(error.instance)
    if error.validator in ("required", "dependentRequired") or not shown:
        return message
    return message.replace(shown, "the value")


def _ordered(errors: Iterable[Any]) -> list[Any]:
    return sorted(errors, key=lambda error: error.json_path)


def schema_problem(schema: dict[str, Any]) -> tuple[str, str] | None:
    """What is wrong with a JSON Schema: the path in it, without "$", and a sentence."""
    import jsonschema.exceptions

    try:
        _validator(msgspec.json.encode(schema))
    except jsonschema.exceptions.SchemaError as error:
        return str(error.json_path).removeprefix("$"), _shortened(error.message)
    except RecursionError:
        return "", "it is nested too deeply"
    except Exception as error:  # noqa: BLE001  a metaschema that leads nowhere, of several classes
        return "", _shortened(str(error))
    return None


@lru_cache(maxsize=_KEPT_VALIDATORS)
def _validator(schema: bytes) -> "Validator":
    """A validator of this schema, which was found to be one. Fetches nothing."""
    from jsonschema import Draft202012Validator
    from jsonschema.validators import validator_for
    from jsonschema_specifications import REGISTRY  # type: ignore[import-untyped]

    decoded = msgspec.json.decode(schema)
    made = validator_for(decoded, default=Draft202012Validator)
    made.check_schema(decoded)
    # The published metaschemas and nothing else: the default registry reads references
    # from the network.
    return made(decoded, registry=REGISTRY)


def _shortened(text: str, limit: int = 200) -> str:
    return text if len(text) <= limit else f"{text[: limit - 1]}…"
