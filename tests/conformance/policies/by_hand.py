"""A plugin that speaks the protocol by hand, and writes what its settings say.

    {"node.before": {"on": "bad", "writes": ["debug: here\n", "ANSWER\n"], "slowly": true}}

For each question at that half, about that node if one is named: ``writes`` are written to
stdout one after the other, ANSWER in them being the frame with the consent, ID the id of
the question and BIG ``big`` bytes of text; ``slowly`` byte by byte. ``errors`` is how many
bytes go to stderr first.
Anything else is answered with consent. It knows no features, and no library.
"""

import json
import os
import sys
from typing import Any


def write(text: str, *, slowly: bool = False) -> None:
    data = memoryview(text.encode("utf-8", "surrogatepass"))
    size = 1 if slowly else len(data)
    while data:
        data = data[os.write(1, data[:size]) :]


def answer(frame: dict[str, Any]) -> None:
    params = frame["params"]
    half = frame["method"]
    told = params["component"].get(f"{params['seam']}.{half}", {})
    if told.get("on", params["subject"]["nodeName"]) != params["subject"]["nodeName"]:
        told = {}
    action = "proceed" if half == "before" else "pass"
    consent = json.dumps({"id": frame["id"], "result": {"action": action}})
    if "errors" in told:
        sys.stderr.write("x" * told["errors"] + "\n")
        sys.stderr.flush()
    for text in told.get("writes", ["ANSWER\n"]):
        text = text.replace("ANSWER", consent).replace("ID", json.dumps(frame["id"]))
        text = text.replace("BIG", "x" * told.get("big", 0))
        write(text, slowly=told.get("slowly", False))


for line in sys.stdin:
    asked = json.loads(line)
    if asked["method"] in ("init", "cancel", "shutdown"):
        write(json.dumps({"id": asked["id"], "result": {"protocol": 1}}) + "\n")
    else:
        answer(asked)
