"""Stand-ins for what a run is given, and a run in one call, for tests and benchmarks.

result, events = await run_document(flow_bytes, {"x": 1}, tools={"double": double})
"""

from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from typing import Any, Self

import msgspec

from heddle.engine.gate import Policies, asked_by
from heddle.engine.plan import make_plan
from heddle.engine.questions import Confirmation, Decision, Person, Question
from heddle.engine.run import Run
from heddle.engine.walk import Limits
from heddle.engine.work import Services
from heddle.events import Event
from heddle.spec import Component, read_document
from plugins_host import (
    CAPABILITIES,
    CallServices,
    Chain,
    Half,
    HandlerTable,
    InProcessPlugin,
    Link,
    Message,
    ModelRequest,
    ModelResponse,
    Seam,
)

Answer = ModelResponse | str | Exception
ToolFunction = Callable[..., Mapping[str, Any] | Awaitable[Mapping[str, Any]]]


class FakeModels:
    """Answers model calls from a list, or by a function of the request.

    ``requests`` keeps what was asked. Text is streamed in pieces of three characters.
    """

    def __init__(
        self,
        answers: Iterable[Answer]
        | Callable[[ModelRequest], Answer | Awaitable[Answer]] = (),
        defaults: Mapping[str, Any] | None = None,
    ) -> None:
        self._answer = answers if callable(answers) else None
        self._answers = iter(()) if callable(answers) else iter(answers)
        self._defaults = defaults or {}
        self.requests: list[ModelRequest] = []

    def defaults(self, llm: Component) -> Mapping[str, Any]:
        """The generation parameters that it was made with."""
        return self._defaults

    async def chat(
        self,
        llm: Component,
        request: ModelRequest,
        *,
        on_text: Callable[[str], None] | None,
    ) -> ModelResponse:
        """The next answer; an exception in its place is raised."""
        self.requests.append(request)
        answer: Any = self._answer(request) if self._answer else next(self._answers)
        if isinstance(answer, Awaitable):
            answer = await answer
        if isinstance(answer, Exception):
            raise answer
        response = ModelResponse(answer) if isinstance(answer, str) else answer
        assert isinstance(response, ModelResponse)
        if on_text is not None:
            for at in range(0, len(response.content), 3):
                on_text(response.content[at : at + 3])
        return response


class FakePerson:
    """Answers in turn, with a text where a node asks and a `Decision` where a tool does.

    ``asked`` keeps what was asked; an exception in an answer's place is raised.
    """

    def __init__(self, *answers: str | Decision | Exception) -> None:
        self._answers = iter(answers)
        self.asked: list[Question | Confirmation] = []

    async def answer(self, question: Question, /) -> str:
        """The next answer, which is to be a text."""
        answer = await self._next(question)
        assert isinstance(answer, str)
        return answer

    async def confirm(self, question: Confirmation, /) -> Decision:
        """The next answer, which is to be a decision."""
        answer = await self._next(question)
        assert isinstance(answer, Decision)
        return answer

    async def _next(self, question: Question | Confirmation) -> str | Decision:
        import trio.testing

        self.asked.append(question)
        # Whoever wants to ask beside it gets as far as it can.
        await trio.testing.wait_all_tasks_blocked()
        answer = next(self._answers)
        if isinstance(answer, Exception):
            raise answer
        return answer


class FakeWorkspace:
    """Counts who is inside."""

    def __init__(self, tools: "FakeTools") -> None:
        self._tools = tools

    async def __aenter__(self) -> Self:
        self._tools.open_workspaces += 1
        return self

    async def __aexit__(self, *exc: object) -> None:
        self._tools.open_workspaces -= 1


class FakeTools:
    """Functions, plain or async, as tools, called with the arguments as keywords."""

    def __init__(self, functions: Mapping[str, ToolFunction]) -> None:
        self._functions = functions
        self.calls: list[tuple[str, dict[str, Any]]] = []
        self.open_workspaces = 0

    def workspace(self) -> FakeWorkspace:
        """A workspace that is no folder."""
        return FakeWorkspace(self)

    async def folder(self, workspace: Any, /) -> str:
        """No folder that there is."""
        return "/workspace"

    async def run(
        self,
        name: str,
        arguments: Mapping[str, Any],
        /,
        *,
        workspace: Any,
        run_key: object,
        services: CallServices | None = None,
    ) -> Mapping[str, Any]:
        """Call the function of that name."""
        self.calls.append((name, dict(arguments)))
        result: Any = self._functions[name](**arguments)
        if isinstance(result, Awaitable):
            result = await result
        assert isinstance(result, Mapping)
        return result


async def run_document(
    data: bytes,
    inputs: Mapping[str, Any] | None = None,
    *,
    models: FakeModels | None = None,
    tools: Mapping[str, ToolFunction] | FakeTools | None = None,
    limits: Limits | None = None,
    stream: bool = False,
    installed: Policies | None = None,
    events: list[Event] | None = None,
    person: Person | None = None,
    history: Sequence[Message] | None = None,
    trace: bool = False,
) -> tuple[dict[str, Any], list[Event]]:
    """Read, compile and run a document; its result and its events.

    ``events`` may be passed in to see those of a run that fails.
    """
    seen = [] if events is None else events
    services = Services(
        models=models or FakeModels(),
        tools=tools if isinstance(tools, FakeTools) else FakeTools(tools or {}),
        report=seen.append,
        stream=stream,
        policies=installed,
        person=person,
        trace=trace,
    )
    run = Run(make_plan(read_document(data)), services, limits or Limits())
    return await run.execute(inputs or {}, history), seen


def policies(
    *middleware: tuple[str, Mapping[str, Mapping[str, Any]]],
    settings: Mapping[str, Any] | None = None,
    patience: float = 30.0,
    models: Mapping[str, Component] | None = None,
) -> Policies:
    """Policies made of functions, asked in this order, each in a plugin of its own name.

        policies(("Gate", {"toolCall": {"before": lambda event, ctx: …}}))

    Args:
        middleware: Names, and handlers by seam and half.
        settings: Settings by name.
        patience: Seconds that one question may take.
        models: LLM configurations by name.
    """
    links = [
        Link(
            name,
            f"{name.lower()}-plugin",
            msgspec.json.encode((settings or {}).get(name, {})),
            {
                Seam(seam): frozenset(Half(half) for half in halves)
                for seam, halves in seams.items()
            },
            InProcessPlugin(
                f"{name.lower()}-plugin",
                HandlerTable({name: seams}),
                capabilities=frozenset(CAPABILITIES),
                log=lambda _line: None,
            ),
        )
        for name, seams in middleware
    ]
    chain = Chain(links)
    return Policies(chain, asked_by(chain), patience, models or {})
