"""Settings of middleware: ``--plugin-config TYPE=JSON``, read and checked before a start.

    --plugin-config RetryPolicy='{"maxAttempts": 3}'
    --plugin-config SpendLimit=@/etc/heddle/spend-limit.json

A component's schema is applied to what was given, and to ``{}`` when nothing was: a
required field that nobody supplied stops the start, not the first run that needs it.
"""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

import msgspec

from plugins_host.faults import Fault, one_of
from plugins_host.json_faults import json_flaw
from plugins_host.json_schemas import violations

FLAG: Final = "--plugin-config"

# Settings with word lists in them fit; a device or a log named by mistake is not read
# until the memory ends.
MAX_SETTINGS: Final = 16 * 1024 * 1024

# A value that is wrong in many places is told in this many.
_TOLD: Final = 8


class SettingsError(Fault):
    """The operator's settings of a component cannot be used.

    Attributes:
        component_type: Which component, or "" when the flag names none.
    """

    def __init__(self, what: str, *, component_type: str = "", fix: str = "") -> None:
        where = f"{FLAG} {component_type}" if component_type else FLAG
        super().__init__(what, where=where, fix=fix)
        self.component_type = component_type


def read_settings(flags: Sequence[str]) -> dict[str, dict[str, Any]]:
    """Read the values of ``--plugin-config``, in the order given.

    Returns:
        The settings by component type.

    Raises:
        SettingsError: One is malformed or unreadable, or a type is given twice.
    """
    found: dict[str, dict[str, Any]] = {}
    for flag in flags:
        name, equals, text = flag.partition("=")
        if not equals or not name:
            raise SettingsError(
                f"{flag!r} does not say which component it is for",
                fix="Write RetryPolicy='{\"maxAttempts\": 3}', or RetryPolicy=@file.",
            )
        if name in found:
            raise SettingsError(
                "it is given twice", component_type=name, fix="Give it once for each type."
            )
        found[name] = _read_value(name, text)
    return found


def _read_value(name: str, text: str) -> dict[str, Any]:
    if text.startswith("@"):
        source, data = text[1:], _read_file(name, text[1:])
    else:
        source, data = "", text.encode(errors="surrogateescape")
    data = data.removeprefix(b"\xef\xbb\xbf")
    there = f" in {source}" if source else ""
    try:
        value = msgspec.json.decode(data)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        shown = "" if source else f" {text[:80]!r}"
        flaw = json_flaw(data, error)
        raise SettingsError(
            f"the value{shown}{there} is not valid JSON: {flaw.what}",
            component_type=name,
            fix=(data.lstrip()[:1] == b"{" and flaw.fix)
            or "Write a JSON object, or @ and the path of a file that holds one.",
        ) from error
    if not isinstance(value, dict):
        shown = msgspec.json.encode(value).decode()[:80]
        raise SettingsError(
            f"the value{there} is {shown}, which is no object",
            component_type=name,
            fix='Write a JSON object, such as {"maxAttempts": 3}.',
        )
    return value


def _read_file(name: str, path: str) -> bytes:
    try:
        with Path(path).open("rb") as file:
            data = file.read(MAX_SETTINGS + 1)
    except (OSError, ValueError) as error:
        why = error.strerror if isinstance(error, OSError) and error.strerror else error
        raise SettingsError(
            f"cannot read {path!r}: {why}",
            component_type=name,
            fix="Check the path and its permissions.",
        ) from error
    if len(data) > MAX_SETTINGS:
        raise SettingsError(
            f"{path!r} is larger than {MAX_SETTINGS // 1024 // 1024} MiB",
            component_type=name,
            fix="Name the right file.",
        )
    return data


def check_settings(
    given: Mapping[str, Mapping[str, Any]], schemas: Mapping[str, dict[str, Any] | None]
) -> dict[str, dict[str, Any]]:
    """Check what was given against what the installed middleware wants.

    Args:
        given: By component type, as `read_settings` returns them.
        schemas: The schema of every middleware that is loaded, by component type.

    Returns:
        The settings of every middleware; ``{}`` where none were given.

    Raises:
        SettingsError: Settings for a type that no loaded plugin provides as middleware, or
            that do not fit the component's schema.
    """
    for name in given:
        if name not in schemas:
            raise SettingsError(
                f"no loaded plugin provides {name!r} as middleware",
                component_type=name,
                fix=one_of(name, schemas),
            )
    return {name: _fit(name, given.get(name), schema) for name, schema in schemas.items()}


def _fit(
    name: str, given: Mapping[str, Any] | None, schema: dict[str, Any] | None
) -> dict[str, Any]:
    settings = {} if given is None else dict(given)
    if schema is None:
        return settings
    problems = violations(settings, schema)
    if not problems:
        return settings
    told = "; ".join(problems[:_TOLD])
    more = f"; and {len(problems) - _TOLD} more" if len(problems) > _TOLD else ""
    if given is None:
        raise SettingsError(
            f"nothing was given, and {{}} does not fit the schema: {told}{more}",
            component_type=name,
            fix=f"Pass {FLAG} {name}='{{…}}'.",
        )
    raise SettingsError(
        f"the value does not fit the schema: {told}{more}",
        component_type=name,
        fix="Correct the value.",
    )
