"""How the handlers that an author wrote are found, and what of their answers counts.

    {"RetryPolicy": {"nodeError": {"after": fn}}}     dicts, as on the published page
    {"RetryPolicy": RetryPolicy}                      a class with ``after_node_error``

Both hosts of handlers use it, a process of the plugin's own and heddle's. It calls
nothing itself.
"""

import inspect
import re
from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import Any, Final, TypeAlias

from plugins_host.authoring.surface import HostError


class HandlerMissing(LookupError):
    """The manifest declares what no handler serves; the message has the line to write."""


class AnswerInvalid(TypeError):
    """A handler returned something that cannot be what it was asked for."""


_A_VERDICT: Final = "a verdict, such as {'action': 'proceed'} or {'action': 'pass'}"

Handler: TypeAlias = Callable[..., Any]
Handlers: TypeAlias = Mapping[str, Any]


class Found:
    """A handler, how errors call it, and whether it was written with ``async def``.

    ``slow`` is for its caller to remember how long it took; unknown is slow.
    """

    __slots__ = ("function", "is_async", "label", "slow")

    def __init__(self, function: Handler, label: str) -> None:
        self.function = function
        self.label = label
        self.is_async = inspect.iscoroutinefunction(
            function
        ) or inspect.iscoroutinefunction(
            getattr(function, "__call__", None)  # noqa: B004  instances whose call is async
        )
        self.slow = True

    def read_verdict(self, answer: Any) -> dict[str, Any]:
        """The answer of a middleware, when it is a dict at all.

        Raises:
            AnswerInvalid: It is something else.
        """
        return read_answer(answer, self.label, wanted=_A_VERDICT)

    def read_frames(self, answer: Any) -> Any:
        """The answer of an encoder, when it is a list at all.

        Raises:
            AnswerInvalid: It is something else.
        """
        if isinstance(answer, list | tuple):
            return answer
        raise AnswerInvalid(
            f"{self.label} returned {_kind(answer)}. Return a list of frames, such as "
            "[{'event': 'token', 'data': {…}}]."
        )


class HandlerTable:
    """Finds the function that serves a question, among dicts, classes and instances.

    A class is instantiated once, with no arguments. Its methods are found by the half and
    the seam, ``before_tool_call``, or under the seam's own name as in a dict.
    """

    def __init__(self, handlers: Handlers) -> None:
        if not isinstance(handlers, Mapping):
            raise TypeError(
                f"handlers are a dict of component types, not {_kind(handlers)}; "
                "write {'MyPolicy': {'toolCall': {'before': handler}}}"
            )
        self._components: dict[str, Any] = {
            name: made() if inspect.isclass(made) else made
            for name, made in handlers.items()
        }
        self._found: dict[tuple[str, str, str], Found] = {}

    def half(self, component_type: str, seam: str, half: str) -> Found:
        """The handler of one half of one seam.

        Raises:
            HandlerMissing: There is none; says what to write.
        """
        key = (component_type, seam, half)
        found = self._found.get(key)
        if found is None:
            found = self._found[key] = self._find_half(*key)
        return found

    def function(self, component_type: str, name: str) -> Found:
        """The handler called ``name`` of a component that is no middleware.

        Raises:
            HandlerMissing: There is none; says what to write.
        """
        key = (component_type, "", name)
        found = self._found.get(key)
        if found is None:
            component = self._components.get(component_type)
            function = _member(component, name)
            if not callable(function):
                raise _missing(
                    component_type,
                    f"has no handler {name!r}",
                    f"{{{component_type!r}: {{{name!r}: {name}}}}}",
                    self._components,
                )
            label = f"{component_type} {name}"
            found = self._found[key] = Found(function, label)
        return found

    def _find_half(self, component_type: str, seam: str, half: str) -> Found:
        component = self._components.get(component_type)
        function = _member(_member(component, seam), half)
        if not callable(function):
            function = getattr(component, f"{half}_{_snake(seam)}", None)
        if not callable(function):
            raise _missing(
                component_type,
                f"has no handler for {seam}.{half}",
                f"{{{component_type!r}: {{{seam!r}: {{{half!r}: {half}}}}}}}",
                self._components,
            )
        return Found(function, f"{component_type} {seam}.{half}")


def _missing(
    component_type: str, what: str, line: str, known: Mapping[str, Any]
) -> HandlerMissing:
    there = "" if component_type in known else f" (there are handlers for: {_list(known)})"
    return HandlerMissing(f"{component_type} {what}{there}. Write serve({line}).")


def _list(names: Mapping[str, Any]) -> str:
    return ", ".join(names) or "nothing"


def _member(holder: Any, name: str) -> Any:
    """``name`` of a dict, an instance or a class within one, in either spelling."""
    if isinstance(holder, Mapping):
        found = holder.get(name)
        return holder.get(_snake(name)) if found is None else found
    found = getattr(holder, name, None)
    if found is None:
        found = getattr(holder, _snake(name), None)
    return found() if inspect.isclass(found) else found


def _snake(name: str) -> str:
    return re.sub(r"(?<!^)(?=[A-Z])", "_", name).lower()


def _kind(value: object) -> str:
    return "None" if value is None else type(value).__name__


def read_answer(answer: Any, label: str, *, wanted: str) -> dict[str, Any]:
    """The dict that a handler answered with. Only a dict is an answer.

    Args:
        answer: What the handler returned.
        label: How errors call the handler.
        wanted: What it should have returned, in words.

    Raises:
        AnswerInvalid: It is something else: None is no consent, and a coroutine no verdict.
    """
    if type(answer) is dict or isinstance(answer, Mapping):
        return answer if type(answer) is dict else dict(answer)
    if inspect.iscoroutine(answer):
        answer.close()
        hint = "a coroutine; write the handler with 'async def', or await what it calls"
    elif answer is None:
        hint = "None"
    else:
        hint = f"{_kind(answer)} {_shortened(answer)}"
    raise AnswerInvalid(f"{label} returned {hint}. Return {wanted}.")


def _shortened(value: object, limit: int = 80) -> str:
    try:
        text = repr(value)
    except Exception:  # noqa: BLE001  a repr is anybody's code, and this is about an error
        text = "(no repr)"
    return text if len(text) <= limit else text[:limit] + "…"


def describe_error(error: BaseException, label: str) -> tuple[str, str]:
    """Name and message of what a handler raised, as heddle is told it."""
    name = type(error).__name__
    match error:
        case SystemExit():
            return (
                name,
                f"{label} called sys.exit({error.code!r}); a handler returns a verdict",
            )
        case KeyboardInterrupt():
            return name, f"{label} raised KeyboardInterrupt"
        case HostError():
            return error.name, error.message
        case HandlerMissing() | AnswerInvalid():
            return name, str(error)
        case _:
            return name, _told(error) or name


def _told(error: BaseException) -> str:
    try:
        return str(error)
    except Exception:  # noqa: BLE001  the author's own __str__ may be what is wrong
        return "(its message cannot be read)"


def about_error(error: BaseException) -> dict[str, Any]:
    """What else an exception says that heddle reads: a status, and whether to try again.

    Taken from attributes that many clients of model providers give their errors.
    """
    said: dict[str, Any] = {}
    for word, names in _ABOUT.items():
        for name in names:
            # Anybody's property, and this is about an error already.
            with suppress(Exception):
                value = getattr(error, name, None)
                if isinstance(value, int | float):
                    said[word] = value
                    break
    return said


_ABOUT: Final[Mapping[str, tuple[str, ...]]] = {
    "status": ("status", "status_code"),
    "retryAfterMs": ("retry_after_ms",),
    "retryable": ("retryable",),
}
