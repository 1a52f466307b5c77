"""JSON and YAML become the same data, or one error that says where."""

import subprocess
import sys
from typing import Any

import msgspec
import pytest
import yaml
from hypothesis import example, given
from hypothesis import strategies as st

from heddle.spec import MAX_DOCUMENT, MAX_NESTING, DocumentError, read_document
from heddle.spec.problems import MAX_PROBLEMS
from heddle.spec.syntax import parse

FORMATS: tuple[str, ...] = ("json", "yaml")

# What JSON can carry; YAML has no way to write some characters at all.
TEXT = st.text(st.characters(codec="utf-8", exclude_categories=("Cs", "Cc", "Cn", "Co")))
DATA = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**80), 2**80)
    | st.floats(allow_nan=False, allow_infinity=False)
    | TEXT,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(TEXT, inner, max_size=4),
    max_leaves=12,
)
OBJECTS = st.dictionaries(TEXT, DATA, max_size=5)


def refusal(data: bytes, *, name: str = "flow", kind: str | None = None) -> str:
    with pytest.raises(DocumentError) as raised:
        parse(data, name=name, format=kind)
    return str(raised.value)


@given(OBJECTS)
def test_json_is_read_as_it_was_written(data: dict[str, Any]) -> None:
    assert parse(msgspec.json.encode(data), name="d", format="json") == data


@given(OBJECTS)
@example({"a": "yes", "b": "2026-12-02", "c": "1:30", "d": "0o7", "e": "", "f": "~"})
@example({"a": "1e3", "b": ".5", "c": "+1", "d": "0x1f", "e": ".inf", "f": "null"})
def test_yaml_is_read_as_it_was_written(data: dict[str, Any]) -> None:
    # All in quotes, and what isn't text with its tag: a dumper for YAML 1.1 would leave
    # some text bare that is a number in 1.2.
    written = yaml.dump(data, Dumper=yaml.SafeDumper, default_style='"', allow_unicode=True)
    assert parse(written.encode(), name="d", format="yaml") == data


@given(OBJECTS)
@example({"a\u2028b": "a \u2028 b", "c": "\u2029\x85", "d": ["\ue000 \x85 \U000f0000"]})
def test_json_is_yaml_and_means_the_same(data: dict[str, Any]) -> None:
    encoded = msgspec.json.format(msgspec.json.encode(data), indent=2)
    assert parse(encoded, name="d", format="yaml") == parse(
        encoded, name="d", format="json"
    )


def test_what_broke_lines_in_older_yaml_is_text_and_counts_as_no_line() -> None:
    text = "a: \u2028b\n&k c\u2029d: 'x \x85 y'\ne: *k\n"
    assert parse(text.encode(), name="d", format="yaml") == {
        "a": "\u2028b",
        "c\u2029d": "x \x85 y",
        "e": "c\u2029d",
    }
    said = refusal('a: "\u2028\x85"\nb: !nothing c'.encode(), kind="yaml")
    assert "line 2, column 4" in said


@given(st.binary(max_size=200), st.sampled_from(FORMATS))
@example(b"[" * 100_000, "json")
@example(b"[" * 100_000, "yaml")
@example(b"- " * 100_000, "yaml")
@example(b"? " * 100_000, "yaml")
@example(b"&a [*a]", "yaml")
@example(b"!!python/object:os.system x", "yaml")
@example(b'{"a": "\xff"}', "json")
@example(b'{"a": "\\ud800"}', "json")
@example(b"\xff\xfe{\x00}\x00", "json")
@example(b"{" * 5000, "yaml")
def test_any_bytes_are_an_object_or_a_document_error(data: bytes, kind: str) -> None:
    try:
        read = parse(data, name="d", format=kind)
    except DocumentError:
        return
    assert isinstance(read, dict)


@pytest.mark.parametrize(
    ("data", "sentence"),
    [
        (
            b'{\n  "a": 1,\n  "b" 2\n}',
            "flow.json line 3, column 7: malformed JSON: expecting ':' delimiter. "
            "Write a colon between the name and its value.",
        ),
        (
            b'{"a": [1, 2',
            "flow.json line 1, column 12: malformed JSON: expecting ',' delimiter. "
            "Close the '[' of line 1.",
        ),
        (
            '{"ä": tru}'.encode(),
            "flow.json line 1, column 7: malformed JSON: expecting value. Did you "
            "mean true?",
        ),
        (
            b'{"a": 1}\n}',
            "flow.json line 2, column 1: malformed JSON: extra data. Take the '}' away: "
            "nothing is open there.",
        ),
        (
            b"{a: 1}",
            "flow.json line 1, column 2: malformed JSON: expecting property name enclosed "
            "in double quotes. Put names and texts in double quotes.",
        ),
        (
            b'{"a": 1.5, "b": 12, "c"}',
            "flow.json line 1, column 24: malformed JSON: expecting ':' delimiter. "
            "Write a colon between the name and its value.",
        ),
        (
            b'{"NaN":\n NaN}',
            "flow.json line 2, column 2: NaN is not a number in JSON. Write null, or a "
            "text.",
        ),
        (
            b'{"a": -Infinity}',
            "flow.json line 1, column 7: -Infinity is not a number in JSON. Write null, "
            "or a text.",
        ),
        (
            b'{"a": 1e400}',
            "flow.json line 1, column 7: the number '1e400' is out of range",
        ),
        (
            b'{"a": ' + b"9" * 5000 + b"}",
            "flow.json line 1, column 7: an integer of 5000 digits is out of range",
        ),
        (
            b'{"\\ud83d\\ude00": "\\\\ud800",\n "b": "\\uD800"}',
            "flow.json line 2, column 8: \\uD800 is half of a surrogate pair, and stands "
            "alone",
        ),
        (
            b'{"a": "\\udc00\\ud800"}',
            "flow.json line 1, column 8: \\udc00 is half of a surrogate pair, and stands "
            "alone",
        ),
        (
            b'{"a": "\x01"}',
            "flow.json line 1, column 8: malformed JSON: invalid control character. "
            "Take the character out.",
        ),
        (
            b'{"a": "x\xff"}',
            "flow.json line 1, column 9: byte 0xff is not UTF-8. Save the document as "
            "UTF-8.",
        ),
        (b"\xff\xfe{\x00", "flow.json: this is UTF-16. Save it as UTF-8."),
        (b"", "flow.json: this document is empty"),
        (b"\xef\xbb\xbf \n", "flow.json: this document is empty"),
        (
            b"[1]",
            "flow.json: this holds a list where a document is an object. Write the fields "
            "of "
            "a component, such as a Flow, at the top level.",
        ),
        (
            b'"text"',
            "flow.json: this holds 'text' where a document is an object. Write the fields "
            "of "
            "a component, such as a Flow, at the top level.",
        ),
        (
            b'{"a": {"x": 1, "b": 2, "x": 3}}',
            "flow.json $.a.x: the key 'x' is written 2 times in one object, first at line "
            "1, column 8. Keep one of them.",
        ),
        (
            b'{"x": 1, "x": "\\u003a"}',
            "flow.json $.x: the key 'x' is written 2 times in one object, first at line 1, "
            "column 2. Keep one of them.",
        ),
        (
            b'{"a:b": 1, "a\\u003ab": 2}',
            "flow.json $['a:b']: the key 'a:b' is written 2 times in one object, first at "
            "line 1, column 2. Keep one of them.",
        ),
        (
            b'{"a": {"x": 1, "x": 2},\n "a": [[], {"y": {}, "x": "{,"},\n{"x": [1, 2], '
            b'"\\u0078": 2}]}',
            "flow.json has 2 problems:\n"
            "  $.a: the key 'a' is written 2 times in one object, first at line 1, "
            "column 2. Keep one of them.\n"
            "  $.a[2].x: the key 'x' is written 2 times in one object, first at line 3, "
            "column 2. Keep one of them.",
        ),
    ],
)
def test_json_that_is_refused_says_where_and_why(data: bytes, sentence: str) -> None:
    assert refusal(data, name="flow.json") == sentence


@pytest.mark.parametrize(
    ("data", "sentence"),
    [
        (
            b"a: 1\nb: [1, 2\nc: 3",
            "flow.yaml line 3, column 2: malformed YAML: while parsing a flow sequence: "
            "did not find expected ',' or ']'. Put a comma before it, or close the "
            "bracket.",
        ),
        (
            b"a: 1\n\tb: 2",
            "flow.yaml line 2, column 1: malformed YAML: a tab stands where a line is "
            "indented. Indent with spaces: YAML takes no tabs there.",
        ),
        (
            b"a: 1\nb: 2\na: 3",
            "flow.yaml line 3, column 1: the key 'a' is written twice in one object, first "
            "at line 1, column 1. Keep one of them.",
        ),
        (
            b"x: {x: [x, {x: &n 1}], y: *n}\ny:\n - x: 2\n   z: {x: [3]}\n   'x': 4\n",
            "flow.yaml line 5, column 4: the key 'x' is written twice in one object, first "
            "at line 3, column 4. Keep one of them.",
        ),
        (
            b"a: 1\n---\nb: 2",
            "flow.yaml line 2, column 1: a second YAML document begins. Keep one document "
            "to "
            "a file.",
        ),
        (b"# nothing\n", "flow.yaml: this document is empty"),
        (
            b"a: !env HOME",
            "flow.yaml line 1, column 4: the tag '!env' is not known here. Remove it.",
        ),
        (
            b"a: !!set {x}",
            "flow.yaml line 1, column 4: the tag '!!set' is not known here. Remove it.",
        ),
        (b"a: !!int x", "flow.yaml line 1, column 4: 'x' is not what !!int says"),
        (
            b"a: .nan",
            "flow.yaml line 1, column 4: .nan is not a number in JSON. Write null, or a "
            "text in quotes.",
        ),
        (
            b"a: -.inf",
            "flow.yaml line 1, column 4: -.inf is not a number in JSON. Write null, or "
            "a text in quotes.",
        ),
        (b"a: 1e400", "flow.yaml line 1, column 4: the number '1e400' is out of range"),
        (b"a: *b", "flow.yaml line 1, column 4: the alias '*b' has no anchor"),
        (b"a: &b [1, *b]", "flow.yaml line 1, column 11: '*b' contains itself"),
        (
            b"base: &b {x: 1}\na:\n  <<: *b",
            "flow.yaml line 3, column 3: merge keys are not part of YAML 1.2. Write the "
            "fields "
            "out.",
        ),
        (
            b"? [a]\n: 1",
            "flow.yaml line 1, column 3: a key is a collection. Use text as the key.",
        ),
        (
            b"x: &x k\n*x : 1",
            "flow.yaml line 2, column 1: a key is an alias. Write the key out.",
        ),
        (
            "ä: 1\nb: \x00".encode(),
            "flow.yaml line 2, column 4: malformed YAML: the character U+0000 is not "
            "allowed",
        ),
        (
            b"a: \xe4",
            "flow.yaml line 1, column 4: byte 0xe4 is not UTF-8. Save the document as "
            "UTF-8.",
        ),
    ],
)
def test_yaml_that_is_refused_says_where_and_why(data: bytes, sentence: str) -> None:
    assert refusal(data, name="flow.yaml") == sentence


@pytest.mark.parametrize(
    ("scalar", "value"),
    [
        ("yes", "yes"),
        ("No", "No"),
        ("on", "on"),
        ("off", "off"),
        ("y", "y"),
        ("true", True),
        ("FALSE", False),
        ("null", None),
        ("~", None),
        ("", None),
        ("2026-12-02", "2026-12-02"),
        ("2026-12-02 10:00:00", "2026-12-02 10:00:00"),
        ("190:20:30", "190:20:30"),
        ("1_000", "1_000"),
        ("017", 17),
        ("0o17", 15),
        ("0x1F", 31),
        ("-0", 0),
        ("+12", 12),
        ("1e3", 1000.0),
        ("1.5E-2", 0.015),
        (".5", 0.5),
        ("3.", 3.0),
        ("25.4.1", "25.4.1"),
        ("1e", "1e"),
        ("'12'", "12"),
        ('"true"', "true"),
        ("!!str 12", "12"),
        ("! 12", "12"),
        ("!!float 12", 12.0),
        ("!!bool true", True),
        ("!!null ''", None),
        ("|\n  12\n", "12\n"),
        ("a:b", "a:b"),
    ],
)
def test_yaml_scalars_follow_the_core_schema(scalar: str, value: object) -> None:
    read = parse(f"k: {scalar}".encode(), name="d.yaml")["k"]
    assert read == value
    assert type(read) is type(value)


def test_yaml_keys_are_always_text() -> None:
    document = b"5: a\ntrue: b\n~: c\n1.50: d\n"
    assert parse(document, name="d.yaml") == {"5": "a", "true": "b", "~": "c", "1.50": "d"}


def test_yaml_aliases_stand_for_what_they_name() -> None:
    document = b"a: &x {k: [1, &y two]}\nb: *x\nc: *y\n&z d: *x\n"
    value = {"k": [1, "two"]}
    assert parse(document, name="d.yaml") == {
        "a": value,
        "b": value,
        "c": "two",
        "d": value,
    }


def test_yaml_aliases_that_explode_are_refused_at_once() -> None:
    lines = ["a0: &a0 [x, x, x, x, x, x, x, x, x, x]"]
    lines += [
        f"a{level}: &a{level} [{', '.join([f'*a{level - 1}'] * 10)}]"
        for level in range(1, 12)
    ]
    sentence = refusal("\n".join(lines).encode(), name="bomb.yaml")
    assert "the aliases expand to more than 16 MiB. Use fewer aliases." in sentence


def test_many_harmless_aliases_are_not_a_bomb() -> None:
    document = "a: &a {k: v}\nb:\n" + "- *a\n" * 10_000
    assert len(parse(document.encode(), name="d.yaml")["b"]) == 10_000


@pytest.mark.parametrize("kind", FORMATS)
def test_as_many_levels_as_allowed_are_read_and_one_more_is_not(kind: str) -> None:
    deepest = b'{"a":' + b"[" * (MAX_NESTING - 1) + b"]" * (MAX_NESTING - 1) + b"}"
    assert parse(deepest, name="d", format=kind)
    deeper = b'{"a":' + b"[" * MAX_NESTING + b"]" * MAX_NESTING + b"}"
    assert refusal(deeper, kind=kind) == (
        f"flow line 1, column {5 + MAX_NESTING}: this is nested more than {MAX_NESTING} "
        f"levels "
        "deep. Move inner components to '$referenced_components'."
    )


@pytest.mark.parametrize("kind", FORMATS)
@pytest.mark.parametrize("levels", [10_000, 1_000_000])
def test_hopeless_nesting_is_a_clear_error_in_a_fresh_process(
    kind: str, levels: int
) -> None:
    # In a process of its own: what this guards against ends the process.
    program = (
        "from heddle.spec import read_document, DocumentError\n"
        f"data = b'{{\"a\":' * {levels} + b'1' + b'}}' * {levels}\n"
        "try:\n"
        f"    read_document(data, name='deep', format={kind!r})\n"
        "except DocumentError as error:\n"
        "    print(error)\n"
    )
    ended = subprocess.run(
        [sys.executable, "-c", program],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert (ended.returncode, ended.stderr) == (0, "")
    assert f"this is nested more than {MAX_NESTING} levels deep" in ended.stdout


def test_a_document_of_fifty_megabytes_is_refused_without_being_read() -> None:
    assert refusal(b" " * 50 * 2**20, name="big.json") == (
        "big.json: this is 50.0 MiB, and a document has at most 16 MiB"
    )
    assert MAX_DOCUMENT == 16 * 2**20


def test_a_byte_order_mark_is_not_part_of_the_text() -> None:
    for name, data in (("d.json", b'{"a": 1}'), ("d.yaml", b"a: 1")):
        assert parse(b"\xef\xbb\xbf" + data, name=name) == {"a": 1}


@pytest.mark.parametrize(
    ("name", "kind", "data"),
    [
        ("flow.YML", None, b"{a: 1}"),
        ("flow.json", "yaml", b"a: 1"),
        ("flow.yaml", "json", b'{"a": 1}'),
        ("flow", None, b' {"a": 1}'),
        ("flow", None, b"a: 1"),
    ],
)
def test_the_format_is_given_or_named_or_seen(
    name: str, kind: str | None, data: bytes
) -> None:
    assert parse(data, name=name, format=kind) == {"a": 1}


def test_what_begins_like_json_is_told_as_json() -> None:
    assert "malformed JSON" in refusal(b"\n {a: 1}", name="flow.txt")


def test_repeated_keys_are_all_told() -> None:
    document = b'{"a": 1, "a": 2, "l": [{"b": 1}, {"b": 1, "c": 0, "b": 2, "b": 3}]}'
    with pytest.raises(DocumentError) as raised:
        read_document(document, name="d.json")
    assert [problem.path for problem in raised.value.problems] == ["$.a", "$.l[1].b"]


def test_no_more_repeated_keys_are_told_than_anybody_reads() -> None:
    document = b'{"l": [' + b",".join([b'{"a": 1, "a": 2}'] * 1000) + b"]}"
    with pytest.raises(DocumentError) as raised:
        parse(document, name="d.json")
    assert len(raised.value.problems) == MAX_PROBLEMS


@pytest.mark.parametrize("levels", [200, 600, 950, 990])
def test_deep_nesting_that_is_malformed_or_repeats_keys_is_told(levels: int) -> None:
    assert "flow" in refusal(b"[" * levels + b"x", kind="json")
    repeated = b'{"a":1,"a":' * levels + b"1" + b"}" * levels
    assert "levels deep" in refusal(repeated, kind="json")


def test_an_integer_that_nobody_counts_to_is_refused_in_yaml_too() -> None:
    assert refusal(b"a: " + b"9" * 5000, name="d.yaml") == (
        "d.yaml line 1, column 4: an integer of 5000 digits is out of range"
    )


def test_colons_inside_text_are_no_sign_of_a_repeated_key() -> None:
    assert parse(b'{"a:": ":::", "b": {":": "\\u003a"}}', name="d.json") == {
        "a:": ":::",
        "b": {":": ":"},
    }


def test_a_missing_yaml_library_is_told_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delitem(sys.modules, "heddle.spec.yaml_syntax", raising=False)
    monkeypatch.setitem(sys.modules, "yaml", None)
    assert refusal(b"a: 1", name="d.yaml") == (
        "d.yaml: YAML can't be read: PyYAML is not here, or was built without libyaml. "
        "Install PyYAML from its wheel, or write the document in JSON."
    )
