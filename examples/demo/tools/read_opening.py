#!/usr/bin/env python3
"""Reads what a module says that it is: the first line of its docstring.

{"path": "heddle/events.py"} -> {"opening": "What a run tells about itself: ..."}
"""

import ast
import json
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[3]

name = json.load(sys.stdin)["path"]
path = (ROOT / name).resolve()
if not path.is_relative_to(ROOT) or path.suffix != ".py" or not path.is_file():
    sys.exit(f"{name!r} is not a module of the repository")
docstring = ast.get_docstring(ast.parse(path.read_text(encoding="utf-8"))) or "nothing."
json.dump({"opening": docstring.splitlines()[0]}, sys.stdout)
