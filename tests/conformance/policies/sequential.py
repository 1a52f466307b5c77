"""The seam contract as a program that does one thing after the other.

    story = Story("17", members, Random(4), limits)      what one run must come to
    story.script, story.answers, story.results           what policies, model and tools say
    story.trace, story.ending                            what must be seen of it

It is written from the contract and shares nothing with the engine: no tasks, no frames, no
processes. What policies, the model and the tools say is drawn at random when the story
first gets there, and kept, so that the real run can be told the same.

A trace holds a tuple for each thing that a reader of the run could see, each beginning
with its kind and its lane. Lanes are the tools that are called side by side: what happens
in one is in order, and how two of them interleave is nobody's promise.
"""

import json
from collections.abc import Callable, Mapping, Sequence
from random import Random
from typing import Any, Final

from msgspec import Struct
from msgspec.structs import replace

Plain = dict[str, Any]
Item = tuple[Any, ...]

MAX_ROUNDS: Final = 10
MAX_MODEL_ATTEMPTS: Final = 3

# Written out once more: the table that the engine reads could be wrong.
ADMITS: Final[Mapping[str, tuple[str, ...]]] = {
    "nodeError.after": ("pass", "replace", "retry", "fail"),
    "node.before": ("proceed", "modify", "replace", "reject"),
    "node.after": ("pass", "replace", "fail"),
    "toolCall.before": ("proceed", "modify", "replace", "reject"),
    "toolCall.after": ("pass", "replace", "fail"),
    "modelCall.before": ("proceed", "modify", "replace", "reject"),
    "modelCall.after": ("pass", "replace", "retry", "fail"),
    "agentRound.before": ("proceed", "reject"),
    "agentRound.after": ("pass", "fail"),
}

TOOLS: Final = [
    {
        "name": name,
        "description": "",
        "parameters": {
            "type": "object",
            "properties": {"where": {"type": "string", "default": "here"}},
            "required": [],
        },
    }
    for name in ("look", "peek")
]


class Text:
    """Equal to every text that holds all of these parts."""

    def __init__(self, *parts: str) -> None:
        self.parts = parts

    def __eq__(self, other: object) -> bool:
        return isinstance(other, str) and all(part in other for part in self.parts)

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        return f"Text{self.parts!r}"


class Member(Struct, frozen=True):
    """One middleware of the chain. ``plain`` ones neither wait nor run tools."""

    name: str
    plugin: str
    halves: frozenset[str]
    plain: bool = False


class Bounds(Struct, frozen=True):
    """The limits of the run."""

    iterations: int = 12
    node_attempts: int = 3


class Ended(Exception):
    """The run is over before its end."""

    def __init__(self, kind: str, *parts: str) -> None:
        super().__init__(kind, parts)
        self.kind = kind
        self.parts = parts


class NodeFails(Exception):
    """The work of a node failed."""

    def __init__(self, name: str, *parts: str) -> None:
        super().__init__(name, parts)
        self.name = name
        self.parts = parts


class At(Struct):
    """Where a consultation happens.

    ``gentle``: nothing that ends the run may be decided. ``changed``: somebody has modified
    the input.
    """

    node: str
    attempt: int
    most: int
    lane: str = ""
    call: str = ""
    gentle: bool = False
    may_call: bool = False
    changed: bool = False


class Settled(Struct):
    """What an execution came to: a result, perhaps a policy's, or an error."""

    value: Plain | None
    branch: str | None = None
    by: str | None = None
    error: NodeFails | None = None


def compact(value: object) -> str:
    """JSON as heddle writes it."""
    return json.dumps(value, separators=(",", ":"), ensure_ascii=False)


class Story:
    """One run, told in order.

    Args:
        tag: What makes its data different from every other run's.
        members: The chain.
        rng: Where all that is random comes from.
        bounds: The limits of the run.
        trouble: How often policies forbid, end and are at fault, from 0.
        faults: In which ways they may be at fault, of `FAULTS`.

    Attributes:
        script: The policies' entries, by what they are shown.
        answers: What the model says, one call after the other: texts of errors, or
            responses.
        results: What each tool says, one call after the other: texts of errors, or objects.
        requests: What the model must be sent.
        calls: How each tool must be called.
        trace, ending: What must be seen; the ending is ``("completed", state)`` or
            ``(class of the error, Text)``.
    """

    def __init__(
        self,
        tag: str,
        members: Sequence[Member],
        rng: Random,
        bounds: Bounds = Bounds(),  # noqa: B008  frozen
        *,
        trouble: float = 1.0,
        faults: Sequence[str] = (),
    ) -> None:
        self.tag = tag
        self.members = members
        self.bounds = bounds
        self.inputs: Plain = {"tag": tag, "n": 0, "go": "on", "text": f"grüße {tag} 😀"}
        self.script: dict[str, Plain] = {}
        self.answers: list[str | Plain] = []
        self.results: dict[str, list[str | Plain]] = {"work": [], "look": [], "peek": []}
        self.requests: list[Plain] = []
        self.calls: dict[str, list[Plain]] = {"work": [], "look": [], "peek": []}
        self.trace: list[Item] = []
        self._rng = rng
        self._trouble = trouble
        self._faults = faults
        self._fresh = 0
        self._spent = 0
        self._calls_seen = 0
        try:
            self.ending: tuple[str, Any] = ("completed", self._walk())
        except Ended as end:
            self.ending = (end.kind, Text(*end.parts))

    # --- the walk -----------------------------------------------------------------------

    def node_name(self, role: str) -> str:
        """Names carry the tag: it is all that a policy at a round is shown of a run."""
        return f"{role}@{self.tag}"

    def _walk(self) -> Plain:
        onward = {"start": "work", "work": "pick", "ask": "talk", "talk": "end"}
        state = dict(self.inputs)
        role = "start"
        while True:
            settled = self._arrive(role, state)
            assert settled.value is not None
            state |= settled.value
            if role == "end":
                return settled.value
            if role == "pick":
                if settled.by is not None:
                    raise Ended(
                        "NoWayOn", self.node_name(role), settled.by, "never a route"
                    )
                role = "work" if settled.branch == "again" else "ask"
            else:
                role = onward[role]

    def _arrive(self, role: str, state: Plain) -> Settled:
        """Execute a node until an execution settles."""
        name = self.node_name(role)
        attempt = 1
        while True:
            if self._spent >= self.bounds.iterations:
                raise Ended("LimitReached", name, "--max-iterations")
            self._spent += 1
            settled = self._execute(role, dict(state), attempt)
            if settled is None:
                attempt += 1
                continue
            if settled.error is not None:
                raise Ended("NodeFailed", name, *settled.error.parts)
            self._saw("completed", "", name, attempt, settled.value)
            return settled

    def _execute(self, role: str, given: Plain, attempt: int) -> Settled | None:
        """One attempt; None when another one was granted."""
        name = self.node_name(role)
        at = At(name, attempt, self.bounds.node_attempts)
        decided, given, by = self._before("node.before", at, given)
        if decided == "reject":
            raise Ended("RefusedByPolicy", name, by, given["reason"])
        if decided == "replace":
            self._saw("started", "", name, attempt, given["input"])
            settled = Settled(given["value"], by=by)
        else:
            self._saw("started", "", name, attempt, given)
            settled = self._work(role, at, given)
        if settled.error is not None:
            error = settled.error
            self._saw("failed", "", name, attempt, error.name)
            decided, said, by = self._after(
                "nodeError.after", at, shown_error(error), refuse=self._no_more(attempt)
            )
            if decided == "retry":
                return None
            if decided == "fail":
                raise Ended("RefusedByPolicy", name, by, said["reason"], *error.parts)
            if decided == "replace":
                settled = Settled(said["value"], by=by)
        try:
            return self._settle(at, settled)
        except Ended as end:
            if settled.error is None:
                self._saw("failed", "", name, attempt, end.kind)
            raise

    def _no_more(self, attempt: int) -> bool:
        return attempt >= self.bounds.node_attempts or self._spent >= self.bounds.iterations

    def _settle(self, at: "At", settled: Settled) -> Settled:
        error = settled.error
        outcome = (
            {"ok": True, "value": settled.value} if error is None else shown_error(error)
        )
        decided, said, by = self._after("node.after", at, outcome)
        if decided == "fail":
            raise Ended(
                "RefusedByPolicy",
                at.node,
                by,
                said["reason"],
                *(error.parts if error else ()),
            )
        return Settled(said["value"], by=by) if decided == "replace" else settled

    def _work(self, role: str, at: "At", given: Plain) -> Settled:
        try:
            match role:
                case "start" | "end":
                    return Settled(given)
                case "work":
                    return Settled(self._run_tool("work", given))
                case "pick":
                    return Settled({}, "again" if given["go"] == "again" else "default")
                case "ask":
                    said = self._call_model(at, [user(f"{given['text']} {given['n']}")])
                    return Settled({"generated_text": said["content"]})
                case _:
                    return Settled(self._talk(at, given))
        except NodeFails as error:
            return Settled(None, error=error)
        except Ended as end:
            self._saw("failed", "", at.node, at.attempt, end.kind)
            raise

    # --- tools --------------------------------------------------------------------------

    def _run_tool(self, tool: str, arguments: Plain) -> Plain:
        self.calls[tool].append(arguments)
        said: str | Plain
        if self._rng.random() < 0.2:
            said = f"{tool} broke: {self._new()}"
        elif tool == "work":
            again = "again" if self._rng.random() < 0.3 else "on"
            said = {"n": self._number(), "go": again, "by": self.tag}
        else:
            said = {"saw": self._new()}
        self.results[tool].append(said)
        if isinstance(said, str):
            raise NodeFails("Broken", said)
        return said

    def _answer_call(self, at: "At", call: Plain, *, gentle: bool) -> tuple[Plain, Plain]:
        """The tool message that answers a call, and the call as it was made."""
        lane, identity = call["name"], call["id"]
        asked = {"where": "here"} | json.loads(call["arguments"])
        at = replace(at, lane=lane, call=identity, gentle=gentle, changed=False)
        decided, given, _ = self._before("toolCall.before", at, asked)
        arguments = given if decided == "proceed" else given["input"]
        self._saw("tool", lane, arguments)
        ok = decided != "reject"
        if decided == "reject":
            content = {"error": f"this call was refused: {given['reason']}"}
        elif decided == "replace":
            content = given["value"]
        else:
            try:
                content, ok = self._use_tool(at, arguments)
            except Ended:
                self._saw("returned", lane, False)
                raise
        self._saw("returned", lane, ok)
        if at.changed:
            call = {**call, "arguments": compact(arguments)}
        answer = {"role": "tool", "content": compact(content), "tool_call_id": identity}
        return answer, call

    def _use_tool(self, at: "At", arguments: Plain) -> tuple[Plain, bool]:
        """What the model is told, and whether it went well."""
        error: NodeFails | None = None
        outcome: Plain
        try:
            outcome = {"ok": True, "value": self._run_tool(at.lane, arguments)}
        except NodeFails as failed:
            error, outcome = failed, shown_error(failed)
        decided, said, by = self._after("toolCall.after", at, outcome, arguments)
        if decided == "fail":
            raise Ended("RefusedByPolicy", at.node, by, said["reason"])
        if decided == "replace":
            return said["value"], True
        if error is not None:
            return {"error": error.parts[0]}, False
        return outcome["value"], True

    # --- the model ----------------------------------------------------------------------

    def _call_model(
        self, at: "At", messages: list[Plain], tools: Sequence[Plain] = ()
    ) -> Plain:
        request: Plain = {"model": "stub", "messages": messages}
        if tools:
            request["tools"] = tools
        at = replace(at, attempt=1, most=MAX_MODEL_ATTEMPTS, may_call=bool(tools))
        decided, given, by = self._before("modelCall.before", at, request)
        if decided == "reject":
            raise NodeFails("StoppedByPolicy", by, given["reason"])
        if decided == "replace":
            return whole_response(given["value"])
        for attempt in range(1, MAX_MODEL_ATTEMPTS + 1):
            at = replace(at, attempt=attempt)
            self.requests.append(given)
            answer = self._draw_answer(may_call=bool(tools))
            error = NodeFails("Broken", answer) if isinstance(answer, str) else None
            outcome = {"ok": True, "value": answer} if error is None else shown_error(error)
            decided, said, by = self._after(
                "modelCall.after", at, outcome, refuse=attempt == MAX_MODEL_ATTEMPTS
            )
            if decided == "retry":
                continue
            if decided == "fail":
                parts = () if error is None else error.parts
                raise NodeFails("StoppedByPolicy", by, said["reason"], *parts)
            if decided == "replace":
                return whole_response(said["value"])
            if error is not None:
                raise error
            assert isinstance(answer, dict)
            return answer
        raise AssertionError("the last attempt stands")

    def _draw_answer(self, *, may_call: bool) -> str | Plain:
        answer: str | Plain
        if self._rng.random() < 0.12:
            answer = f"busy: {self._new()}"
        elif may_call and self._rng.random() < 0.5:
            answer = self._calling(f"thinking {self._new()}")
        else:
            answer = {"content": f"said {self._new()}", "finish_reason": "stop"}
        self.answers.append(answer)
        return answer

    def _calling(self, content: str) -> Plain:
        """An answer that asks for one or two tools."""
        self._calls_seen += 1
        wanted = [("look",), ("peek",), ("look", "peek")][self._rng.randrange(3)]
        calls = [
            {
                "id": f"c{self._calls_seen}{name}",
                "name": name,
                "arguments": self._rng.choice(["{}", compact({"where": self._new()})]),
            }
            for name in wanted
        ]
        return {"content": content, "finish_reason": "tool_calls", "tool_calls": calls}

    def _talk(self, at: "At", given: Plain) -> Plain:
        """The agent: rounds, until there is an answer without calls."""
        messages = [
            {"role": "system", "content": f"You serve {given['tag']}."},
            user(compact(given)),
        ]
        for number in range(1, MAX_ROUNDS + 1):
            about = {"round": number, "maxRounds": MAX_ROUNDS}
            decided, said, by = self._before("agentRound.before", at, about)
            if decided == "reject":
                raise NodeFails("StoppedByPolicy", by, f"round {number}", said["reason"])
            answer = self._call_model(at, [*messages], TOOLS)
            calls = answer.get("tool_calls", ())
            if not calls:
                return {"result": answer["content"]}
            told = [self._answer_call(at, each, gentle=len(calls) > 1) for each in calls]
            asked = [call for _, call in told]
            messages.append(
                {"role": "assistant", "content": answer["content"], "tool_calls": asked}
            )
            messages += [message for message, _ in told]
            ran = {"round": number, "toolCalls": [call["name"] for call in calls]}
            decided, said, by = self._after(
                "agentRound.after", at, {"ok": True, "value": ran}
            )
            if decided == "fail":
                raise NodeFails("StoppedByPolicy", by, f"round {number}", said["reason"])
        raise NodeFails("AgentStopped", "10 rounds")

    # --- the chain ----------------------------------------------------------------------

    def _before(self, place: str, at: "At", given: Plain) -> tuple[str, Plain, str]:
        """Ask the before half: what was decided, with what, by whom.

        With "proceed" comes the input, with the others the verdict and, as ``input``, what
        it decided about.
        """
        for member in self.members:
            if place not in member.halves:
                continue
            entry = self._ask(place, member, at, {"input": given})
            verdict = entry.get("verdict", {"action": "proceed"})
            by = f"middleware {member.name!r} of plugin {member.plugin!r}"
            if "set" in entry:
                given = {**given, **entry["set"]}
                at.changed = True
            elif "append" in entry:
                given = {**given, "messages": [*given["messages"], user(entry["append"])]}
            elif verdict["action"] == "replace":
                self._warned(place, member, at, "replaces")
                return "replace", {**verdict, "input": given}, by
            elif verdict["action"] == "reject":
                if place == "toolCall.before":
                    self._warned(place, member, at, "refuses")
                return "reject", {**verdict, "input": given}, by
        return "proceed", given, ""

    def _after(
        self,
        place: str,
        at: "At",
        outcome: Plain,
        arguments: Plain | None = None,
        *,
        refuse: bool = False,
    ) -> tuple[str, Plain, str]:
        """Ask the after half. ``refuse`` says that a ceiling stands against a retry."""
        shown = {} if arguments is None else {"input": arguments}
        for member in self.members:
            if place not in member.halves:
                continue
            entry = self._ask(place, member, at, {**shown, "outcome": outcome})
            verdict = entry.get("verdict", {"action": "pass"})
            by = f"middleware {member.name!r} of plugin {member.plugin!r}"
            match verdict["action"]:
                case "replace":
                    self._warned(place, member, at, "replaces")
                    return "replace", verdict, by
                case "retry" if refuse:
                    self._warned(place, member, at, "asked to retry")
                case "retry":
                    if verdict.get("delayMs", 0) < 0:
                        self._warned(place, member, at, "asked for a delay")
                    self._warned(place, member, at, "retries")
                    return "retry", verdict, by
                case "fail":
                    return "fail", verdict, by
                case _:
                    pass
        return "pass", {}, ""

    def _ask(self, place: str, member: Member, at: "At", shown: Plain) -> Plain:
        """One consultation of one member: what it is shown, and what it says."""
        asked = (member.name, place, at.node, at.attempt, at.most, shown)
        self._saw("asked", at.lane, *asked)
        key = _key(place, member, at, shown)
        entry = self.script.get(key)
        if entry is None:
            entry = self.script[key] = self._draw_entry(place, member, at)
        if "tool" in entry:
            self._saw("used", at.lane, member.name, self.tag)
        parts = entry.get("fault")
        if parts is not None:
            # A process that ends in the middle of a stretch cannot say at whom.
            who = member.name if entry.get("does") == "die" else repr(member.name)
            where = f" of plugin {member.plugin!r}, {place}"
            raise Ended("PolicyFailed", at.node, who, where, *parts)
        return entry

    def _saw(self, kind: str, lane: str, *what: Any) -> None:
        self.trace.append((kind, lane, *what))

    def _warned(self, place: str, member: Member, at: "At", what: str) -> None:
        self._saw("warned", at.lane, member.name, place, at.node, what)

    # --- what is drawn ------------------------------------------------------------------

    def _number(self) -> int:
        self._fresh += 1
        return self._fresh

    def _new(self) -> str:
        """A text that no other run has, and this one once."""
        return f"{self.tag}.{self._number()}"

    def _draw_entry(self, place: str, member: Member, at: "At") -> Plain:
        entry = self._draw_verdict(place, member, at)
        if not member.plain:
            if self._rng.random() < 0.1:
                entry["delay"] = self._rng.randrange(12)
            if self._rng.random() < 0.05:
                entry["tool"] = "whoami"
        return entry

    def _draw_verdict(self, place: str, member: Member, at: "At") -> Plain:
        admits = ADMITS[place]
        chances = {
            "modify": 0.12,
            "replace": 0.04,
            "retry": 0.15,
            "reject": 0.015 * self._trouble,
            "fail": 0.015 * self._trouble,
        }
        if place == "toolCall.before":
            chances["reject"] = 0.1
        drawn = self._rng.random()
        for action, chance in chances.items():
            if action not in admits or (at.gentle and action == "fail"):
                continue
            if drawn < chance:
                return self._verdicts()[action](place, member, at)
            drawn -= chance
        if drawn < 0.01 * self._trouble and self._faults and not at.gentle:
            name = self._rng.choice(self._faults)
            return dict(FAULTS[name](place))
        return {}

    def _verdicts(self) -> Mapping[str, Callable[[str, Member, "At"], Plain]]:
        return {
            "modify": self._modify,
            "replace": self._replace,
            "retry": self._retry,
            "reject": self._because("reject"),
            "fail": self._because("fail"),
        }

    def _because(self, action: str) -> Callable[[str, Member, "At"], Plain]:
        return lambda _place, member, _at: {
            "verdict": {"action": action, "reason": f"{member.name} says no, {self._new()}"}
        }

    def _modify(self, place: str, member: Member, _at: "At") -> Plain:
        text = f"{member.name} {self._new()}"
        match place:
            case "toolCall.before":
                return {"set": {"where": text}}
            case "modelCall.before":
                edits: list[Plain] = [{"append": text}, {"set": {"temperature": 0.5}}]
                return self._rng.choice(edits)
            case _:
                more = {"go": self._rng.choice(["on", "again"])}
                return {"set": {"mark": text, **(more if self._rng.random() < 0.3 else {})}}

    def _replace(self, place: str, member: Member, at: "At") -> Plain:
        by = f"by {member.name} {self._new()}"
        value: Plain
        if place.startswith("modelCall"):
            calls = at.may_call and self._rng.random() < 0.4
            value = self._calling(by) if calls else {"content": by}
        elif place.startswith("toolCall"):
            value = {"instead": by}
        else:
            go = self._rng.choice(["on", "again"])
            value = {"by": by, "n": self._number(), "go": go}
        return {"verdict": {"action": "replace", "value": value}}

    def _retry(self, _place: str, _member: Member, _at: "At") -> Plain:
        delay: Plain = self._rng.choice(
            [{}, {"delayMs": 0}, {"delayMs": 7}, {"delayMs": -5}]
        )
        return {"verdict": {"action": "retry", **delay}}


def user(content: str) -> Plain:
    """A message of the user."""
    return {"role": "user", "content": content}


def shown_error(error: NodeFails) -> Plain:
    """An error as policies are shown it."""
    return {"ok": False, "name": error.name, "message": Text(*error.parts)}


def whole_response(value: Plain) -> Plain:
    """A policy's answer, as if a model had given it."""
    return {"finish_reason": "tool_calls" if value.get("tool_calls") else "stop", **value}


def _key(place: str, member: Member, at: At, shown: Plain) -> str:
    """What the scripted policies call the same question."""
    parts: list[Any]
    outcome = shown.get("outcome")
    if outcome is not None:
        ok = "ok" if outcome["ok"] else "error"
        parts = [ok, at.call]
        if place == "modelCall.after":
            value, message = outcome.get("value"), outcome.get("message")
            parts = [ok, message.parts[0] if value is None else value["content"]]
        elif place == "agentRound.after":
            parts = [outcome["value"]["round"]]
    elif place == "toolCall.before":
        parts = [at.call]
    elif place == "modelCall.before":
        parts = [sum(each["role"] != "user" for each in shown["input"]["messages"])]
    elif place == "agentRound.before":
        parts = [shown["input"]["round"]]
    else:
        parts = [shown["input"].get("n", "")]
    return "|".join(map(str, (member.name, place, at.node, at.attempt, *parts)))


def _verdict(verdict: object, *parts: str) -> Callable[[str], Plain]:
    return lambda _place: {"verdict": verdict, "fault": parts}


def _other_half(place: str) -> Plain:
    action = "pass" if place.endswith("before") else "proceed"
    return {"verdict": {"action": action}, "fault": (f"{action!r} is not admitted here",)}


def _no_reason(place: str) -> Plain:
    action = "reject" if place.endswith("before") else "fail"
    return {"verdict": {"action": action}, "fault": ("has no 'reason'",)}


def _bad_value(place: str) -> Plain:
    if "replace" not in ADMITS[place]:
        return _no_reason(place)
    return {
        "verdict": {"action": "replace", "value": [1]},
        "fault": ("'value'", "an array"),
    }


FAULTS: Final[Mapping[str, Callable[[str], Plain]]] = {
    "throws": lambda _place: {"does": "throw", "fault": ("scripted trouble",)},
    "dies": lambda _place: {"does": "die", "fault": ("SIGKILL",)},
    "nothing": _verdict({}, "no 'action'"),
    "null": _verdict(None),
    "text": _verdict("proceed"),
    "unknown": _verdict({"action": "allow"}, "'allow' is not a verdict"),
    "other half": _other_half,
    "no reason": _no_reason,
    "bad value": _bad_value,
}
"""Ways of a policy to be at fault, by name: an entry, and what the error must say."""
