#!/usr/bin/env python3
"""Counts the Python modules and lines below a folder of the repository.

{"folder": "heddle"} -> {"modules", "lines", "largest", "largest_lines"}
"""

import json
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[3]

folder = json.load(sys.stdin)["folder"]
base = (ROOT / folder).resolve()
if not base.is_relative_to(ROOT) or not base.is_dir():
    sys.exit(f"{folder!r} is not a folder of the repository")

sizes = {
    path.relative_to(ROOT).as_posix(): len(path.read_text(encoding="utf-8").splitlines())
    for path in sorted(base.rglob("*.py"))
}
if not sizes:
    sys.exit(f"there are no Python modules in {folder!r}")
largest = max(sizes, key=lambda name: sizes[name])
json.dump(
    {
        "modules": len(sizes),
        "lines": sum(sizes.values()),
        "largest": largest,
        "largest_lines": sizes[largest],
    },
    sys.stdout,
)
