"""Models that are slow, wrong and silent, and say whose question they answer.

A prompt says by ``mode=`` what is to become of its own call; a mood is for all calls while
it lasts. Whatever the model sends repeats the nonce of the prompt, garbage too.
"""

import json
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Final

from tests.pressure.cast import NONCE
from tests.support.model_endpoint import Asked, Call, Reply

Answer = Callable[[str], Reply]


def _text(nonce: str) -> Reply:
    return Reply(f"the model saw {nonce} and says so")


def _garbage(nonce: str) -> Reply:
    # The one for who wants a whole answer, the other for who reads a stream.
    return Reply(body=f'{{"choices": "{nonce}"', events=[f'{{"{nonce}'])


MODES: Final[Mapping[str, Answer]] = {
    "ok": _text,
    "slow": lambda nonce: Reply(_text(nonce).content, delay=0.2, cut=60, pause=0.03),
    "garbage": _garbage,
    "half": lambda nonce: Reply(_text(nonce).content, end="close", after=260),
    "reset": lambda nonce: Reply(_text(nonce).content, end="reset", after=200),
    "busy": lambda nonce: Reply(status=429, headers={"retry-after": "1"}, body=nonce),
    "broken": lambda nonce: Reply(status=500, body=nonce),
    "silent": lambda nonce: Reply(_text(nonce).content, delay=30),
}

FAIL: Final = frozenset({"garbage", "half", "reset", "busy", "broken", "silent"})
"""Those after which a run does not complete."""

MOODS: Final[Mapping[str, tuple[str, ...]]] = {
    "slow": ("slow",),
    "wrong": ("garbage", "half", "reset", "busy", "broken"),
    "silent": ("silent",),
}


@dataclass
class Models:
    """What answers the requests of `tests.support.model_endpoint`.

    Attributes:
        mood: Empty, or one of `MOODS`, whatever prompts say.
        asked: How many calls came.
    """

    mood: str = ""
    asked: int = 0

    def respond(self, asked: Asked) -> Reply:
        """The answer to a call."""
        self.asked += 1
        text = json.dumps(asked.body)
        found = NONCE.search(text.encode())
        mode = re.search(r"mode=([a-z]+)\.", text)
        if found is None or mode is None:
            return Reply(status=400, body="there is no nonce in it")
        nonce = found[0].decode()
        name = mode[1]
        if self.mood:
            modes = MOODS[self.mood]
            name = modes[self.asked % len(modes)]
        answer = MODES[name]
        if name in ("ok", "slow") and wants_tool(asked):
            answer = partial(_call, name)
        return answer(nonce)


def wants_tool(asked: Asked) -> bool:
    """Whether there are tools, and none has been called."""
    messages = asked.body["messages"]
    return bool(asked.body.get("tools")) and messages[-1]["role"] != "tool"


def _call(mode: str, nonce: str) -> Reply:
    reply = MODES[mode](nonce)
    reply.content = None
    reply.calls = [Call("echo", json.dumps({"nonce": nonce}))]
    return reply
