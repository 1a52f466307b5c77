"""What may come with a request: every row of the table, on servers of both kinds."""

from typing import Any

import pytest

from heddle.server.failures import SubmissionRefused
from heddle.server.submitted.code.rules import RULES, check_manifest_rules
from plugins_host.manifests.manifest import Kind, Manifest, ToolEntry

EXAMPLES: dict[tuple[str, str], Any] = {
    **{
        ("components[].kind", kind.value): {"components": [{"kind": kind.value}]}
        for kind in Kind
    },
    ("components[].seams", ""): {"components": [{"seams": {}}]},
    ("command", ""): {"command": ["sh"]},
    ("files", ""): {"files": [{"path": "x", "dest": "y"}]},
    ("discoverTools", ""): {"discoverTools": True},
    ("tools[].path", ""): {"tools": [{"name": "t", "path": "t.sh"}]},
    ("tools[].shadows", ""): {"tools": [{"name": "t", "shadows": True}]},
    ("tools[].componentType", ""): {"tools": [{"name": "t", "componentType": "T"}]},
}
"""A manifest for each row."""

ROWS = [key for key in RULES if key not in {("tools", ""), ("plugins", "")}]


def test_the_table_speaks_of_every_kind_and_of_all_that_starts_or_reads_something() -> None:
    assert set(ROWS) == set(EXAMPLES)
    told = {place for place, _ in RULES}
    plain = {"name", "version", "capabilities", "components", "warnings"}
    assert set(Manifest.__struct_encode_fields__) - plain == told & {
        *("command", "tools", "files", "discoverTools")
    }
    plain = {"name", "description", "inputSchema", "outputSchema"}
    assert {f"tools[].{each}" for each in ToolEntry.__struct_encode_fields__} == {
        *(place for place in told if place.startswith("tools[].")),
        *(f"tools[].{each}" for each in plain),
    }


@pytest.mark.parametrize("key", ROWS, ids=" ".join)
@pytest.mark.parametrize("code", [True, False])
def test_a_row_refuses_with_its_own_words(key: tuple[str, str], *, code: bool) -> None:
    rule = RULES[key]
    if not rule.why or not (code or rule.anyway):
        check_manifest_rules("p", EXAMPLES[key], code=code)
        return
    with pytest.raises(SubmissionRefused) as caught:
        check_manifest_rules("p", EXAMPLES[key], code=code)
    assert str(caught.value) == f"plugin 'p': it {rule.why}. {rule.fix}"


@pytest.mark.parametrize("key", [k for k, r in RULES.items() if r.anyway], ids=" ".join)
def test_what_is_refused_anyway_says_who_installs_it(key: tuple[str, str]) -> None:
    assert "installed by whoever runs the server" in RULES[key].fix


@pytest.mark.parametrize(
    "manifest",
    [
        None,
        3,
        "x",
        [],
        {},
        {"components": 3},
        {"components": [3, {"kind": 3}]},
        {"tools": {}},
    ],
)
def test_what_is_malformed_is_left_to_whoever_reads_it(manifest: Any) -> None:
    check_manifest_rules("p", manifest, code=True)
