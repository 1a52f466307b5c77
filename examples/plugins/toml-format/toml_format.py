"""Lets flows be written in TOML: heddle run flow.toml --plugin toml_format.py."""

import tomllib

manifest = {"name": "toml-format", "version": "1.0.0"}
handlers: dict[str, object] = {}
formats = {"toml": {"extensions": [".toml"], "read": tomllib.loads}}
