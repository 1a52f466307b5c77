"""A model endpoint made of test code: it answers as told, also badly, and remembers.

    async with model_endpoint(Reply("Hello"), Reply(status=429)) as endpoint:
        endpoint.url        http://127.0.0.1:40123/v1
        endpoint.requests   what was asked, with headers and decoded body

Replies are used up in order of arrival. Afterwards, and without any, it echoes:
``ECHO:`` and the last user text, or an object of the schema that was asked for (string
"S", integer 7, number 1.5, boolean true). The same as a process:

    python -m tests.support.model_endpoint [--port N] [--replies '[{"status": 429}]']
                                           [--log FILE] [--seconds 60]

prints its URL, writes a JSON line a request to the log, and ends with its standard input
or after ``--seconds``.
"""

import argparse
import json
import os
import re
import socket
import struct
import sys
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, suppress
from functools import partial
from http import HTTPStatus
from pathlib import Path
from typing import Any, Literal

import httptools
import msgspec
import trio
from msgspec import Struct


class Call(Struct, forbid_unknown_fields=True):
    """A tool call in a reply. None leaves the key out."""

    name: str | None
    arguments: Any = "{}"
    id: str | None = None
    index: int | None = None


class Reply(Struct, forbid_unknown_fields=True):
    """One answer, and everything that is wrong with it.

    Args:
        content: The text; None is null.
        calls: Tool calls; those without an id get call_1, call_2, …
        finish: The finish reason; None makes up the right one, "" sends null.
        usage: Tokens in and out, or None for no usage.
        status: Other than 200 sends ``body``, or an error object.
        headers: Further ones; they win.
        body: Sent as it stands, instead of an answer.
        events: Data of the events of a stream, instead of those of an answer.
        choices: How many alternatives; the second says "no".
        newline: The end of lines in a stream.
        comments: Whether comments stand between the events.
        done: Whether a stream ends with ``[DONE]``.
        piece: Characters of text in a chunk; 0 cuts at blanks.
        fragments: How calls are streamed: whole, in fragments, or those backwards by index.
        framing: How the end of the body is told.
        cut: Bytes in one write; 0 writes all at once.
        delay: Seconds before the first byte.
        pause: Seconds between two writes.
        end: What happens after ``after`` bytes of the response (None: after all).
        interim: Whether 100 Continue comes first.
    """

    content: str | None = "ok"
    calls: list[Call] = []
    finish: str | None = None
    usage: tuple[int, int] | None = (3, 5)
    status: int = 200
    headers: dict[str, str] = {}
    body: str | None = None
    events: list[str] | None = None
    choices: int = 1
    newline: str = "\n"
    comments: bool = False
    done: bool = True
    piece: int = 0
    fragments: Literal["whole", "cut", "backwards"] = "whole"
    framing: Literal["length", "chunked", "close"] | None = None
    cut: int = 0
    delay: float = 0
    pause: float = 0
    end: Literal["complete", "close", "reset", "hang"] = "complete"
    after: int | None = None
    interim: bool = False


class Asked(Struct):
    """A request as it arrived. ``connection`` counts connections from 1."""

    method: str
    target: str
    headers: dict[str, str]
    body: Any
    connection: int


Respond = Callable[[Asked], Reply]


def canned(schema: Any) -> Any:
    """A value of a JSON Schema."""
    if not isinstance(schema, dict):
        return "S"
    if "const" in schema:
        return schema["const"]
    if schema.get("enum"):
        return schema["enum"][0]
    for word in ("anyOf", "oneOf", "allOf"):
        if schema.get(word):
            return canned(schema[word][0])
    kind = schema.get("type", "object" if "properties" in schema else "string")
    if isinstance(kind, list):
        kind = kind[0]
    match kind:
        case "object":
            return {name: canned(it) for name, it in schema.get("properties", {}).items()}
        case "array":
            return [canned(schema.get("items"))]
        case _:
            return {"integer": 7, "number": 1.5, "boolean": True, "null": None}.get(
                kind, "S"
            )


def echo(asked: Asked) -> Reply:
    """The answer when nothing else was told."""
    body = asked.body if isinstance(asked.body, dict) else {}
    wanted = body.get("response_format") or (body.get("text") or {}).get("format") or {}
    match wanted:
        case {"json_schema": {"schema": schema}} | {"schema": schema}:
            return Reply(json.dumps(canned(schema)))
        case {"type": "json_object"}:
            return Reply("{}")
    texts = [
        message.get("content")
        for message in body.get("messages") or body.get("input") or []
        if message.get("role") == "user"
    ]
    return Reply(f"ECHO:{texts[-1] if texts else ''}")


def _calls(reply: Reply) -> list[dict[str, Any]]:
    made = []
    for number, call in enumerate(reply.calls, start=1):
        function = {"name": call.name, "arguments": call.arguments}
        made.append(
            {
                "id": f"call_{number}" if call.id is None else call.id,
                "type": "function",
                "function": {key: it for key, it in function.items() if it is not None},
            }
        )
    return made


def _finish(reply: Reply) -> str | None:
    if reply.finish is not None:
        return reply.finish or None
    return "tool_calls" if reply.calls else "stop"


def _usage(reply: Reply) -> dict[str, int]:
    assert reply.usage is not None
    taken, made = reply.usage
    return {
        "prompt_tokens": taken,
        "completion_tokens": made,
        "total_tokens": taken + made,
    }


def completion(reply: Reply) -> dict[str, Any]:
    """The whole answer of chat completions."""
    message: dict[str, Any] = {"role": "assistant", "content": reply.content}
    if reply.calls:
        message["tool_calls"] = _calls(reply)
    choices = [{"index": 0, "message": message, "finish_reason": _finish(reply)}]
    choices += [
        {
            "index": index,
            "message": {"role": "assistant", "content": "no"},
            "finish_reason": "length",
        }
        for index in range(1, reply.choices)
    ]
    whole: dict[str, Any] = {"id": "c-1", "object": "chat.completion", "choices": choices}
    if reply.usage is not None:
        whole["usage"] = _usage(reply)
    return whole


def pieces(text: str, size: int) -> list[str]:
    """``text`` in pieces of ``size`` characters, or behind each blank."""
    if size:
        return [text[start : start + size] for start in range(0, len(text), size)]
    return re.findall(r"[^ ]* |[^ ]+", text)


def chunks(reply: Reply) -> Iterator[dict[str, Any]]:
    """The chunks of a streamed answer of chat completions."""

    def chunk(delta: dict[str, Any], finish: str | None = None, index: int = 0) -> Any:
        choice = {"index": index, "delta": delta, "finish_reason": finish}
        return {"id": "c-1", "object": "chat.completion.chunk", "choices": [choice]}

    yield chunk({"role": "assistant", "content": None if reply.content is None else ""})
    for piece in pieces(reply.content or "", reply.piece):
        yield chunk({"content": piece})
        for index in range(1, reply.choices):
            yield chunk({"content": "no"}, index=index)
    for fragment in _fragments(reply):
        yield chunk({"tool_calls": [fragment]})
    for index in range(1, reply.choices):
        yield chunk({}, "length", index)
    yield chunk({}, _finish(reply))
    if reply.usage is not None:
        yield {"id": "c-1", "choices": [], "usage": _usage(reply)}


def _fragments(reply: Reply) -> Iterator[dict[str, Any]]:
    whole = [
        {"index": position if call.index is None else call.index, **made}
        for position, (call, made) in enumerate(
            zip(reply.calls, _calls(reply), strict=True)
        )
    ]
    if reply.fragments == "whole":
        yield from whole
        return
    cut = []
    for call in whole:
        arguments = str(call["function"].get("arguments", ""))
        first = {"name": call["function"].get("name"), "arguments": ""}
        cut.append(
            [
                {**call, "function": first},
                *(
                    {"index": call["index"], "function": {"arguments": piece}}
                    for piece in pieces(arguments, 3)
                ),
            ]
        )
    if reply.fragments == "backwards":
        cut.reverse()
    # Turn by turn, so that the fragments of several calls interleave.
    for turn in range(max((len(parts) for parts in cut), default=0)):
        yield from (parts[turn] for parts in cut if turn < len(parts))


def _responses_answer(reply: Reply) -> dict[str, Any]:
    """The whole answer of the Responses API."""
    output: list[dict[str, Any]] = [{"type": "reasoning", "summary": []}]
    if reply.content:
        part = {"type": "output_text", "text": reply.content}
        output.append({"type": "message", "role": "assistant", "content": [part]})
    output += [
        {"type": "function_call", "call_id": call["id"], **call["function"]}
        for call in _calls(reply)
    ]
    whole: dict[str, Any] = {"status": "completed", "error": None, "output": output}
    if reply.finish == "length":
        whole["status"] = "incomplete"
        whole["incomplete_details"] = {"reason": "max_output_tokens"}
    if reply.usage is not None:
        taken, made = reply.usage
        whole["usage"] = {"input_tokens": taken, "output_tokens": made}
    return whole


def _responses_events(reply: Reply) -> Iterator[dict[str, Any]]:
    yield {"type": "response.created", "response": {"status": "in_progress"}}
    for piece in pieces(reply.content or "", reply.piece):
        yield {"type": "response.output_text.delta", "delta": piece}
    if reply.finish != "":
        answer = _responses_answer(reply)
        yield {"type": f"response.{answer['status']}", "response": answer}


def events(reply: Reply, *, responses: bool) -> bytes:
    """The body of a streamed answer."""
    if reply.events is not None:
        data = list(reply.events)
    elif responses:
        data = [json.dumps(event) for event in _responses_events(reply)]
    else:
        data = [json.dumps(chunk) for chunk in chunks(reply)]
        if reply.done:
            data.append("[DONE]")
    comment = f": keep-alive{reply.newline}" if reply.comments else ""
    text = "".join(
        f"{comment}data: {one}{reply.newline}{comment}{reply.newline}" for one in data
    )
    return text.encode()


def response(reply: Reply, asked: Asked) -> bytes:
    """The bytes of a reply, from the status line on."""
    body = asked.body if isinstance(asked.body, dict) else {}
    responses = asked.target.split("?")[0].endswith("/responses")
    streamed = bool(body.get("stream")) and reply.status == 200
    kind = "application/json"
    if reply.body is not None:
        content = reply.body.encode()
    elif reply.status != 200:
        phrase = HTTPStatus(reply.status).phrase
        content = json.dumps({"error": {"message": phrase, "type": "test"}}).encode()
    elif streamed:
        kind = "text/event-stream"
        content = events(reply, responses=responses)
    else:
        answer = _responses_answer(reply) if responses else completion(reply)
        content = json.dumps(answer).encode()
    framing = reply.framing or ("chunked" if streamed else "length")
    headers = {"content-type": kind}
    match framing:
        case "length":
            headers["content-length"] = str(len(content))
        case "chunked":
            headers["transfer-encoding"] = "chunked"
            content = _chunked(content, reply.newline * 2 if streamed else "")
        case "close":
            headers["connection"] = "close"
    headers.update({name.lower(): value for name, value in reply.headers.items()})
    head = f"HTTP/1.1 {reply.status} {HTTPStatus(reply.status).phrase}\r\n"
    head += "".join(f"{name}: {value}\r\n" for name, value in headers.items())
    interim = b"HTTP/1.1 100 Continue\r\n\r\n" if reply.interim else b""
    return interim + head.encode("latin-1") + b"\r\n" + content


def _chunked(content: bytes, boundary: str) -> bytes:
    """``content`` in HTTP chunks, one an event where it is a stream."""
    parts = [content]
    if boundary:
        mark = boundary.encode()
        parts = [part + mark for part in content.split(mark)]
        parts[-1] = parts[-1].removesuffix(mark)
    return b"".join(b"%x\r\n%b\r\n" % (len(part), part) for part in parts if part) + (
        b"0\r\n\r\n"
    )


class ModelEndpoint:
    """The server. ``requests`` and ``connections`` are what it saw so far."""

    def __init__(self, replies: tuple[Reply, ...], respond: Respond | None) -> None:
        self.replies = list(replies)
        self.requests: list[Asked] = []
        self.connections = 0
        self.open_connections = 0
        self.url = ""
        self.log: Callable[[Asked], None] = lambda asked: None
        self.respond = respond or echo
        self._changed = trio.Event()

    async def reached(self, state: Callable[[], bool]) -> None:
        """Wait until ``state`` holds."""
        while not state():
            await self._changed.wait()

    def _note(self) -> None:
        self._changed.set()
        self._changed = trio.Event()

    async def serve(self, stream: trio.abc.Stream, sock: trio.socket.SocketType) -> None:
        """One connection, until either side ends it."""
        self.connections += 1
        number = self.connections
        self.open_connections += 1
        try:
            reader = _Reader()
            while (asked := await reader.request(stream, number)) is not None:
                self.requests.append(asked)
                self._note()
                self.log(asked)
                reply = self.replies.pop(0) if self.replies else self.respond(asked)
                if not await self._send(stream, sock, reply, asked):
                    return
        except* (trio.BrokenResourceError, trio.ClosedResourceError, OSError):
            pass
        finally:
            self.open_connections -= 1
            self._note()
            await trio.aclose_forcefully(stream)

    async def _send(
        self,
        stream: trio.abc.Stream,
        sock: trio.socket.SocketType,
        reply: Reply,
        asked: Asked,
    ) -> bool:
        """Send a reply; False when the connection is to be closed after it."""
        data = response(reply, asked)
        if reply.after is not None:
            data = data[: reply.after]
        if reply.delay:
            await trio.sleep(reply.delay)
        size = reply.cut or len(data) or 1
        for start in range(0, len(data), size):
            if start and reply.pause:
                await trio.sleep(reply.pause)
            await stream.send_all(data[start : start + size])
            if size < len(data):
                # Let the client read what is there, so that the cut is one for it too.
                await trio.lowlevel.checkpoint()
        match reply.end:
            case "hang":
                await trio.sleep_forever()
            case "reset":
                linger = struct.pack("ii", 1, 0)
                sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, linger)
                return False
            case "close":
                return False
        return reply.framing != "close"


class _Reader:
    """Reads requests off a stream."""

    def __init__(self) -> None:
        self._parser = httptools.HttpRequestParser(self)
        self._done: list[tuple[str, str, dict[str, str], bytes]] = []
        self.on_message_begin()

    def on_message_begin(self) -> None:
        self._target = b""
        self._headers: dict[str, str] = {}
        self._body = b""

    def on_url(self, piece: bytes) -> None:
        self._target += piece

    def on_header(self, name: bytes, value: bytes) -> None:
        self._headers[name.decode("latin-1").lower()] = value.decode("latin-1")

    def on_body(self, piece: bytes) -> None:
        self._body += piece

    def on_message_complete(self) -> None:
        method = self._parser.get_method().decode()
        self._done.append((method, self._target.decode(), self._headers, self._body))

    async def request(self, stream: trio.abc.Stream, connection: int) -> Asked | None:
        """The next request, or None at the end."""
        while not self._done:
            data = await stream.receive_some(65536)
            if not data:
                return None
            self._parser.feed_data(bytes(data))
        method, target, headers, raw = self._done.pop(0)
        body: Any = raw.decode("utf-8", "replace")
        with suppress(msgspec.DecodeError):
            body = msgspec.json.decode(raw)
        return Asked(method, target, headers, body, connection)


@asynccontextmanager
async def model_endpoint(
    *replies: Reply,
    respond: Respond | None = None,
    port: int = 0,
    tls: Any = None,
) -> AsyncIterator[ModelEndpoint]:
    """A model endpoint on a free port of this machine, closed on leaving.

    Args:
        replies: Used up in order of arrival.
        respond: What to answer then; echoes by default.
        port: 0 takes a free one.
        tls: An ``ssl.SSLContext``, or None for plain HTTP.
    """
    endpoint = ModelEndpoint(replies, respond)

    async def serve(stream: trio.SocketStream) -> None:
        if tls is None:
            await endpoint.serve(stream, stream.socket)
            return
        secure = trio.SSLStream(stream, tls, server_side=True, https_compatible=True)
        await endpoint.serve(secure, stream.socket)

    failure: Exception | None = None
    async with trio.open_nursery() as nursery:
        start = partial(trio.serve_tcp, serve, port, host="127.0.0.1")
        listeners = await nursery.start(start)
        number = listeners[0].socket.getsockname()[1]
        endpoint.url = f"{'http' if tls is None else 'https'}://127.0.0.1:{number}/v1"
        try:
            yield endpoint
        except Exception as error:
            failure = error
        nursery.cancel_scope.cancel()
    if failure is not None:
        raise failure


async def _standing(arguments: argparse.Namespace) -> None:
    replies = msgspec.json.decode(arguments.replies, type=tuple[Reply, ...])
    with trio.move_on_after(arguments.seconds):
        async with model_endpoint(*replies, port=arguments.port) as endpoint:
            if arguments.log:
                log = Path(arguments.log)

                def note(asked: Asked) -> None:
                    with log.open("ab") as file:
                        file.write(msgspec.json.encode(asked) + b"\n")

                endpoint.log = note
            sys.stdout.write(f"{endpoint.url}\n")
            sys.stdout.flush()
            try:
                await trio.lowlevel.wait_readable(sys.stdin.fileno())
                while os.read(sys.stdin.fileno(), 4096):
                    await trio.lowlevel.wait_readable(sys.stdin.fileno())
            except PermissionError:
                # Not something that can be waited for, such as /dev/null.
                await trio.sleep_forever()


def main(arguments: list[str]) -> None:
    """Serve until standard input or the time ends."""
    parser = argparse.ArgumentParser(prog="model_endpoint", description=__doc__)
    parser.add_argument("--port", type=int, default=0)
    parser.add_argument("--replies", default="[]")
    parser.add_argument("--log")
    parser.add_argument("--seconds", type=float, default=60)
    trio.run(_standing, parser.parse_args(arguments))


if __name__ == "__main__":
    main(sys.argv[1:])
