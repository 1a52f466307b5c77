"""``--plugin-config``: how it is read, and what is refused before anything starts."""

from pathlib import Path
from typing import Any

import pytest

from plugins_host.json_schemas import schema_problem
from plugins_host.loading.settings import (
    MAX_SETTINGS,
    SettingsError,
    check_settings,
    read_settings,
)

NEEDS_ATTEMPTS = {
    "type": "object",
    "properties": {"maxAttempts": {"type": "number", "minimum": 1}},
    "required": ["maxAttempts"],
}


def refused(*flags: str) -> SettingsError:
    with pytest.raises(SettingsError) as caught:
        read_settings(flags)
    return caught.value


def unfit(
    given: dict[str, dict[str, Any]], schemas: dict[str, dict[str, Any] | None]
) -> SettingsError:
    with pytest.raises(SettingsError) as caught:
        check_settings(given, schemas)
    return caught.value


def test_settings_are_json_or_a_file_that_holds_it(tmp_path: Path) -> None:
    file = tmp_path / "limit.json"
    file.write_bytes(b'\xef\xbb\xbf{"euros": 5}')

    found = read_settings(['RetryPolicy={"a": "x=y"}', f"SpendLimit=@{file}"])

    assert found == {"RetryPolicy": {"a": "x=y"}, "SpendLimit": {"euros": 5}}


@pytest.mark.parametrize("flag", ["RetryPolicy", "", "={}", '{"a": 1}'])
def test_settings_say_which_component_they_are_for(flag: str) -> None:
    assert "which component it is for" in refused(flag).what


def test_settings_for_one_component_are_given_once() -> None:
    error = refused("A={}", "B={}", "A={}")

    assert str(error) == "--plugin-config A: it is given twice. Give it once for each type."
    assert error.component_type == "A"


@pytest.mark.parametrize(
    "text", ["", "{", "{'a': 1}", "maxAttempts", "[" * 100_000, "{NaN}"]
)
def test_what_is_not_json_is_refused(text: str) -> None:
    error = refused(f"A={text}")

    assert "is not valid JSON" in error.what
    assert error.where == "--plugin-config A"
    assert len(str(error)) < 400


@pytest.mark.parametrize("text", ["5", "null", "[]", '"x"', "true"])
def test_what_is_no_object_is_refused(text: str) -> None:
    assert "which is no object" in refused(f"A={text}").what


def test_a_file_that_cannot_be_read_is_refused(tmp_path: Path) -> None:
    assert "No such file" in refused(f"A=@{tmp_path}/gone.json").what
    assert "Is a directory" in refused(f"A=@{tmp_path}").what
    assert refused("A=@").what.startswith("cannot read ''")
    assert refused("A=@a\0b").what.startswith("cannot read")


def test_a_file_that_holds_no_json_is_named(tmp_path: Path) -> None:
    file = tmp_path / "x.json"
    file.write_bytes(b"\xff\xfe")

    assert f"the value in {file} is not valid JSON" in refused(f"A=@{file}").what


def test_an_endless_file_is_not_read_whole(tmp_path: Path) -> None:
    file = tmp_path / "x.json"
    with file.open("wb") as opened:
        opened.truncate(MAX_SETTINGS * 1000)

    assert "larger than 16 MiB" in refused(f"A=@{file}").what


def test_settings_for_what_is_not_installed_are_refused_with_the_nearest() -> None:
    error = unfit({"RetryPolcy": {}}, {"RetryPolicy": None, "Gate": None})

    assert str(error) == (
        "--plugin-config RetryPolcy: no loaded plugin provides 'RetryPolcy' as middleware. "
        "Did you mean 'RetryPolicy'?"
    )


def test_settings_without_any_middleware_are_refused() -> None:
    assert unfit({"Gate": {}}, {}).fix == "There is none to choose from."


def test_who_was_given_nothing_gets_an_empty_object() -> None:
    assert check_settings({"A": {"x": 1}}, {"A": None, "B": {"type": "object"}}) == {
        "A": {"x": 1},
        "B": {},
    }


def test_settings_that_do_not_fit_are_refused_with_their_place() -> None:
    error = unfit({"A": {"maxAttempts": "three"}}, {"A": NEEDS_ATTEMPTS})

    assert str(error) == (
        "--plugin-config A: the value does not fit the schema: $.maxAttempts: the value is "
        "not of type 'number'. Correct the value."
    )


def test_a_required_field_is_missed_also_when_nothing_was_given() -> None:
    error = unfit({}, {"A": NEEDS_ATTEMPTS})

    assert str(error) == (
        "--plugin-config A: nothing was given, and {} does not fit the schema: $: "
        "'maxAttempts' is a required property. Pass --plugin-config A='{…}'."
    )


def test_many_violations_are_told_in_few() -> None:
    schema = {"additionalProperties": {"type": "string"}}
    error = unfit({"A": {f"k{n}": n for n in range(20)}}, {"A": schema})

    assert error.what.count("is not of type") == 8
    assert error.what.endswith("; and 12 more")


def test_an_older_draft_is_applied_as_it_says() -> None:
    schema = {"$schema": "http://json-schema.org/draft-04/schema#", "minimum": 5}

    assert check_settings({"A": {}}, {"A": schema}) == {"A": {}}
    assert schema_problem(schema) is None


def test_a_schema_of_a_draft_that_leads_nowhere_is_still_one() -> None:
    schema = {"$schema": "http://127.0.0.1:9/own-draft", "type": "object"}

    assert schema_problem(schema) is None
    assert check_settings({}, {"A": schema}) == {"A": {}}


def test_a_schema_nested_without_measure_is_none() -> None:
    schema: dict[str, Any] = {}
    for _ in range(400):
        schema = {"not": schema}

    assert schema_problem(schema) == ("", "it is nested too deeply")


def test_a_reference_out_of_the_schema_is_refused_and_fetched_from_nowhere() -> None:
    schema = {"$ref": "http://127.0.0.1:9/schema.json"}

    assert "cannot be applied" in unfit({"A": {}}, {"A": schema}).what


def test_a_schema_without_end_is_refused() -> None:
    schema = {"$defs": {"a": {"$ref": "#/$defs/a"}}, "$ref": "#/$defs/a"}

    assert "without end" in unfit({"A": {}}, {"A": schema}).what
