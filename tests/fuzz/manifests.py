"""Manifests of plugins, as files and as part of a request."""

import json
from contextlib import suppress
from pathlib import Path

import msgspec

from plugins_host.manifests.problems import ManifestError
from plugins_host.manifests.reading import check_manifest
from tests.fuzz.target import Target

EXAMPLES = Path(__file__).parents[2] / "examples"

# Nothing is in it, and nothing is looked for outside of it.
NOWHERE = Path(__file__).parent / "no such folder"


def read(data: bytes) -> None:
    """Any JSON is a manifest, or all that is wrong with it."""
    try:
        raw = msgspec.json.decode(data)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return
    with suppress(ManifestError):
        check_manifest(raw, file="plugin.json", folder=NOWHERE, builtin_types={"Flow"})


def _seeds() -> tuple[bytes, ...]:
    made: list[object] = [
        json.loads(path.read_bytes())
        for path in sorted(EXAMPLES.glob("p*/*.json"))
        if "components" in path.read_text()
    ]
    made += (
        {
            "name": "all",
            "version": "1.0.0",
            "command": ["python3", "plugin.py"],
            "capabilities": ["runTool", "log"],
            "discoverTools": True,
            "components": [
                {
                    "kind": "node",
                    "componentType": "Shout",
                    "branches": ["next"],
                    "inputs": [{"title": "text", "type": "string"}],
                    "schema": {
                        "type": "object",
                        "properties": {"n": {"$ref": "#/$defs/n"}},
                    },
                },
                {"kind": "transform", "componentType": "Trim", "phase": "pre"},
                {"kind": "provider", "componentType": "Words", "stream": True},
                {
                    "kind": "encoder",
                    "componentType": "Enc",
                    "protocol": "x-y",
                    "contentType": "text/plain",
                },
                {
                    "kind": "middleware",
                    "componentType": "Gate",
                    "seams": {"toolCall": ["before", "after"]},
                },
            ],
            "tools": [
                {"name": "t", "componentType": "T", "inputSchema": {"type": "object"}},
                {"name": "u", "path": "tools/u", "shadows": True},
            ],
            "files": [{"path": "a", "dest": "b/c"}],
        },
    )
    return tuple(json.dumps(each).encode() for each in made)


MANIFESTS = Target(
    read,
    seeds=_seeds(),
    words=(
        *(b'"name":', b'"components":', b'"kind":', b'"componentType":', b'"seams":'),
        *(b'"tools":', b'"files":', b'"schema":', b'"$ref":"#"', b'"../x"', b"null"),
        *(b'"command":', b'"capabilities":', b'"inputSchema":', b'"dest":', b'"\\ud800"'),
    ),
)
