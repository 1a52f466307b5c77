"""Requests and answers on one connection, over a real socket."""

import pytest
import trio

from heddle.server.http import (
    JSON,
    Answer,
    HandlerMisuse,
    Limits,
    Refusal,
    Request,
    Response,
    StreamedResponse,
    Writer,
)
from heddle.server.http.connection import Connection
from tests.heddle.server.http.support import GET, HOST, echo, ok, post, serving, until


async def test_a_request_is_answered_and_its_connection_kept() -> None:
    async with serving(echo) as served, served.connect() as peer:
        for number in range(3):
            await peer.send(post(b"%d" % number, b"X-One: a", path=b"/a%20b?x=1&x=2"))
            answer = await peer.answer()
            assert answer.status == 200
            assert answer.json["method"] == "POST"
            assert answer.json["path"] == "/a b"
            assert answer.json["query"] == [["x", "1"], ["x", "2"]]
            assert answer.json["body"] == str(number)
            assert ["x-one", "a"] in answer.json["headers"]
            assert answer.headers["content-type"] == "application/json"
            assert answer.headers["server"] == "heddle"
            assert answer.headers["date"].endswith(" GMT")
            assert "connection" not in answer.headers


async def test_a_head_like_the_one_before_is_read_anew_wherever_it_differs() -> None:
    async with serving(echo) as served, served.connect() as peer:
        for value in (b"a", b"a", b"b", b"b", b"a", b"c" * 4096, b"c" * 4095 + b"d", b"a"):
            for body in (b"1", b"2"):
                await peer.send(post(body, b"X-One: " + value))
                answer = (await peer.answer()).json
                assert ["x-one", value.decode()] in answer["headers"]
                assert answer["body"] == body.decode()


async def test_requests_sent_together_are_answered_in_order() -> None:
    async with serving(echo) as served, served.connect() as peer:
        await peer.send(b"".join(post(b"%d" % number) for number in range(300)))
        for number in range(300):
            assert (await peer.answer()).json["body"] == str(number)


async def test_requests_may_arrive_byte_by_byte() -> None:
    async with serving(echo) as served, served.connect() as peer:
        for byte in post(b"slow") + post(b"slower"):
            await peer.send(bytes((byte,)))
        assert (await peer.answer()).json["body"] == "slow"
        assert (await peer.answer()).json["body"] == "slower"


async def test_a_body_in_chunks_is_put_together() -> None:
    async with serving(echo) as served, served.connect() as peer:
        head = b"POST / HTTP/1.1\r\n" + HOST + b"Transfer-Encoding: chunked\r\n\r\n"
        await peer.send(head + b"5;x=y\r\nhello\r\n1\r\n!\r\n0\r\nX-Sum: 1\r\n\r\n" + GET)
        assert (await peer.answer()).json["body"] == "hello!"
        assert (await peer.answer()).json["body"] == ""


async def test_a_streamed_answer_arrives_piece_by_piece() -> None:
    async def count(writer: Writer) -> None:
        for number in range(3):
            await writer.write(b"%d," % number)
            await writer.write(b"")

    async def handler(request: Request) -> Answer:
        return StreamedResponse(200, JSON, count, head_first=request.path == "/first")

    async with serving(handler) as served, served.connect() as peer:
        for path in (b"/first", b"/late"):
            await peer.send(GET.replace(b"/", path, 1))
            answer = await peer.answer()
            assert answer.body == b"0,1,2,"
            assert answer.headers["transfer-encoding"] == "chunked"


@pytest.mark.parametrize("path", [b"/whole", b"/streamed"])
async def test_head_gets_the_headers_of_get_and_no_body(path: bytes) -> None:
    async def write(writer: Writer) -> None:
        await writer.write(b"body")

    async def handler(request: Request) -> Answer:
        if request.path == "/streamed":
            return StreamedResponse(200, JSON, write)
        return Response(200, JSON, b"body")

    async with serving(handler) as served, served.connect() as peer:
        got = []
        for method in ("GET", "HEAD", "GET"):
            await peer.send(b"%b %b HTTP/1.1\r\n%b\r\n" % (method.encode(), path, HOST))
            answer = await peer.answer(method)
            answer.headers.pop("date")
            got.append(answer)
        assert got[0].headers == got[1].headers
        assert [one.body for one in got] == [b"body", b"", b"body"]


async def test_a_handler_need_not_look_at_the_request() -> None:
    async with serving(ok) as served, served.connect() as peer:
        await peer.send(GET)
        assert (await peer.answer()).body == b"ok"


# Bodies


async def test_a_client_that_asks_whether_to_go_on_is_told_when_its_body_is_read() -> None:
    async with serving(echo) as served, served.connect() as peer:
        head = b"POST / HTTP/1.1\r\n" + HOST + b"Expect: 100-continue\r\n"
        for body, raw in (
            (b"Content-Length: 5", b"hello"),
            (b"Transfer-Encoding: chunked", b"5\r\nhello\r\n0\r\n\r\n"),
        ):
            await peer.send(head + body + b"\r\n\r\n")
            assert await peer.until(b"\r\n\r\n") == b"HTTP/1.1 100 Continue\r\n\r\n"
            await peer.send(raw)
            assert (await peer.answer()).json["body"] == "hello"


async def test_who_sends_its_body_without_waiting_is_not_told_to_go_on() -> None:
    async with serving(echo) as served, served.connect() as peer:
        await peer.send(post(b"hello", b"Expect: 100-continue"))
        assert (await peer.answer()).json["body"] == "hello"


async def test_a_body_that_is_not_wanted_is_never_asked_for() -> None:
    async with serving(ok) as served, served.connect() as peer:
        head = b"POST / HTTP/1.1\r\n" + HOST + b"Expect: 100-continue\r\n"
        await peer.send(head + b"Content-Length: 5\r\n\r\n")
        answer = await peer.answer()
        assert answer.body == b"ok"
        # Whether a body comes now is the client's choice, so the connection can't go on.
        assert answer.headers["connection"] == "close"
        assert await peer.rest() == b""


async def test_a_body_that_is_too_long_is_refused_before_it_is_sent() -> None:
    limits = Limits(body=1000)
    async with serving(echo, limits=limits) as served:
        async with served.connect() as peer:
            head = b"POST / HTTP/1.1\r\n" + HOST + b"Expect: 100-continue\r\n"
            await peer.send(head + b"Content-Length: 1001\r\n\r\n")
            answer = await peer.answer()
            assert answer.status == 413
            assert answer.error == "payload_too_large"
        async with served.connect() as peer:
            await peer.send(post(b"x" * 1000))
            assert (await peer.answer()).status == 200
            await peer.send(post(b"x" * 1001))
            assert (await peer.answer()).status == 413
            assert await peer.rest() == b""
        assert [one.status for one in served.report.refusals] == [413, 413]


async def test_a_client_that_first_sends_everything_still_reads_that_it_was_too_much() -> (
    None
):
    async with serving(echo) as served:
        for framing in (b"Content-Length: 30000000", b"Transfer-Encoding: chunked"):
            async with served.connect() as peer:
                head = b"POST / HTTP/1.1\r\n" + HOST + framing + b"\r\n\r\n"
                await peer.send(head)
                if b"chunked" in framing:
                    await peer.send(b"1c9c380\r\n")
                await peer.send(b"x" * 20_000_000)
                answer = await peer.answer()
                assert answer.status == 413
                assert answer.headers["connection"] == "close"


async def test_a_handler_may_want_less_than_the_front_admits() -> None:
    async def handler(request: Request) -> Answer:
        return Response(200, (), await request.read(limit=5))

    async with serving(handler) as served, served.connect() as peer:
        await peer.send(post(b"hello"))
        assert (await peer.answer()).body == b"hello"
        await peer.send(post(b"hello!"))
        answer = await peer.answer()
        assert answer.status == 413
        assert answer.json["error"]["message"] == "the body is longer than 5 bytes"
        # It was short enough to be read over.
        assert "connection" not in answer.headers
        head = b"POST / HTTP/1.1\r\n" + HOST + b"Transfer-Encoding: chunked\r\n\r\n"
        await peer.send(head + b"3\r\nhel\r\n3\r\nlo!\r\n0\r\n\r\n")
        assert (await peer.answer()).status == 413


@pytest.mark.parametrize(
    ("framing", "body", "kept"),
    [
        (b"Content-Length: 5", b"hello", True),
        (b"Content-Length: 65536", b"x" * 65536, True),
        (b"Content-Length: 70000", b"x" * 70000, False),
        (b"Transfer-Encoding: chunked", b"5\r\nhello\r\n0\r\n\r\n", False),
    ],
)
async def test_a_short_body_that_nobody_read_does_not_cost_the_connection(
    framing: bytes, body: bytes, kept: bool
) -> None:
    async with serving(ok) as served, served.connect() as peer:
        await peer.send(b"POST / HTTP/1.1\r\n" + HOST + framing + b"\r\n\r\n")
        answer = await peer.answer()
        assert answer.body == b"ok"
        assert ("connection" not in answer.headers) is kept
        await peer.send(body + GET)
        if kept:
            assert (await peer.answer()).body == b"ok"
        else:
            assert await peer.rest() == b""


async def test_a_body_is_read_piece_by_piece_and_once() -> None:
    pieces = []

    async def handler(request: Request) -> Answer:
        assert request.body.length == 4
        while piece := await request.body.receive():
            pieces.append(piece)
        assert await request.body.receive() == b""
        assert await request.read() == b""
        return Response(200)

    async with serving(handler) as served, served.connect() as peer:
        await peer.send(post(b"four"))
        await peer.answer()
        await peer.send(post(b"four")[:-2])
        await until(lambda: len(pieces) == 2)
        await peer.send(b"ur")
        await peer.answer()
        assert pieces == [b"four", b"fo", b"ur"]


async def test_a_bad_chunk_ends_the_connection_after_the_answer() -> None:
    async with serving(echo) as served, served.connect() as peer:
        head = b"POST / HTTP/1.1\r\n" + HOST + b"Transfer-Encoding: chunked\r\n\r\n"
        await peer.send(head + b"5\r\nhello\r\nz\r\n" + GET)
        answer = await peer.answer()
        assert answer.status == 400
        assert answer.headers["connection"] == "close"
        assert await peer.rest() == b""


# Versions and connections


async def test_http_1_0_is_answered_once_and_kept_if_it_asks() -> None:
    async with serving(ok) as served, served.connect() as peer:
        await peer.send(b"GET / HTTP/1.0\r\nConnection: keep-alive\r\n\r\n")
        answer = await peer.answer()
        assert answer.headers["connection"] == "keep-alive"
        await peer.send(b"GET / HTTP/1.0\r\n\r\n")
        assert (await peer.answer()).headers["connection"] == "close"
        assert await peer.rest() == b""


async def test_a_stream_to_http_1_0_ends_with_the_connection() -> None:
    async def write(writer: Writer) -> None:
        await writer.write(b"one")
        await writer.write(b"two")

    async def handler(request: Request) -> Answer:
        return StreamedResponse(200, (), write)

    async with serving(handler) as served, served.connect() as peer:
        await peer.send(b"GET / HTTP/1.0\r\nConnection: keep-alive\r\n\r\n")
        head, _, body = (await peer.rest()).partition(b"\r\n\r\n")
        assert b"transfer-encoding" not in head.lower()
        assert b"Connection: close" in head
        assert body == b"onetwo"


@pytest.mark.parametrize("streamed", [False, True])
async def test_close_is_honoured_and_what_follows_it_ignored(streamed: bool) -> None:
    async def write(writer: Writer) -> None:
        await writer.write(b"ok")

    async def handler(request: Request) -> Answer:
        return StreamedResponse(200, (), write) if streamed else Response(200, (), b"ok")

    async with serving(handler) as served, served.connect() as peer:
        await peer.send(GET[:-2] + b"Connection: close\r\n\r\n" + GET)
        answer = await peer.answer()
        assert answer.body == b"ok"
        assert answer.headers["connection"] == "close"
        assert await peer.rest() == b""


async def test_a_handler_may_end_the_connection() -> None:
    async def handler(request: Request) -> Answer:
        return Response(200, (), b"bye", close=True)

    async with serving(handler) as served, served.connect() as peer:
        await peer.send(GET)
        assert (await peer.answer()).headers["connection"] == "close"
        assert await peer.rest() == b""


async def test_what_is_no_request_is_refused_after_those_before_it_are_answered() -> None:
    async with serving(ok) as served, served.connect() as peer:
        await peer.send(GET + GET + b"nonsense\r\n" + GET)
        assert (await peer.answer()).status == 200
        assert (await peer.answer()).status == 200
        answer = await peer.answer()
        assert answer.status == 400
        assert answer.error == "bad_request"
        assert await peer.rest() == b""


async def test_a_head_without_end_is_refused() -> None:
    async with serving(ok) as served:
        for endless, status in (
            (b"GET /" + b"a" * 100_000, 414),
            (GET[:-2] + b"A: " + b"a" * 100_000, 431),
            (GET[:-2] + b"A: 1\r\n" * 10_000, 431),
            (b"a" * 100_000, 414),
            (b"\x16\x03\x01\x02\x00", 400),
            (b"\r\n" * 10, 400),
            (b"GET / HTTP/2.0\r\nA", 505),
        ):
            async with served.connect() as peer:
                await peer.send(endless)
                assert (await peer.answer()).status == status, endless[:20]


# Faults of handlers


async def test_a_handler_that_raises_is_answered_500_and_reported() -> None:
    error = KeyError("secret")

    async def handler(request: Request) -> Answer:
        raise error

    async with serving(handler, crashes=True) as served, served.connect() as peer:
        await peer.send(GET[:-2] + b"X-Request-ID: abc-1\r\n\r\n")
        answer = await peer.answer()
        assert answer.status == 500
        assert answer.error == "internal_error"
        assert answer.json["error"]["message"] == (
            "heddle-server failed to answer; its log has more under abc-1"
        )
        await peer.send(GET)
        assert (await peer.answer()).status == 500
        assert served.report.crashes == [error, error]


@pytest.mark.parametrize("depth", [0, 1, 2])
async def test_a_refusal_is_an_answer_also_through_nurseries(depth: int) -> None:
    async def refuse(depth: int) -> None:
        if depth:
            async with trio.open_nursery() as nursery:
                nursery.start_soon(refuse, depth - 1)
        else:
            raise Refusal(429, "too many", fix="Wait.", headers=(("Retry-After", "7"),))

    async def handler(request: Request) -> Answer:
        await refuse(depth)
        raise AssertionError

    async with serving(handler) as served, served.connect() as peer:
        for method in ("GET", "HEAD"):
            await peer.send(GET.replace(b"GET", method.encode()))
            answer = await peer.answer(method)
            assert answer.status == 429
            assert answer.headers["retry-after"] == "7"
        assert answer.body == b""
        await peer.send(GET)
        assert (await peer.answer()).json == {
            "error": {"type": "too_many_requests", "message": "too many. Wait."}
        }


async def never(writer: Writer) -> None:
    raise AssertionError


BAD_HEADERS = [
    ("X-A", "a\r\nX-B: b"),
    ("X-A", "a\nb"),
    ("X-A", "a\rb"),
    ("X-A", "a\x00b"),
    ("X-A", " a"),
    ("X-A", "a "),
    ("X-A", "\x7f"),
    ("X-A", "ä"),
    ("X-A\r\nX-B", "b"),
    ("X A", "b"),
    ("X-A:", "b"),
    ("", "b"),
    ("Content-Length", "5"),
    ("transfer-encoding", "chunked"),
    ("Connection", "close"),
    ("DATE", "now"),
    ("Server", "x"),
]
MISUSES: list[Answer] = [
    *(Response(200, (pair,)) for pair in BAD_HEADERS),
    *(StreamedResponse(200, (pair,), never) for pair in BAD_HEADERS),
    Response(204, (), b"body"),
    Response(304, (), b"body"),
    Response(100),
    Response(600),
    StreamedResponse(204, (), never),
    StreamedResponse(101, (), never),
]


@pytest.mark.parametrize("answer", MISUSES)
async def test_what_http_cannot_say_is_never_sent(answer: Answer) -> None:
    async def handler(request: Request) -> Answer:
        return answer

    async with serving(handler, crashes=True) as served, served.connect() as peer:
        for _ in range(2):
            await peer.send(GET)
            assert (await peer.answer()).status == 500
        assert [type(one) for one in served.report.crashes] == [HandlerMisuse] * 2


@pytest.mark.parametrize("status", [204, 304])
async def test_some_answers_have_no_body_and_no_length(status: int) -> None:
    async def handler(request: Request) -> Answer:
        return Response(status, (("ETag", '"x"'),))

    async with serving(handler) as served, served.connect() as peer:
        for _ in range(2):
            await peer.send(GET)
            answer = await peer.answer()
            assert answer.status == status
            assert "content-length" not in answer.headers
            assert answer.headers["etag"] == '"x"'


async def test_what_is_written_last_comes_with_the_end() -> None:
    async def write(writer: Writer) -> None:
        await writer.write(b"first")
        writer.write_last(b"last")

    async def handler(request: Request) -> Answer:
        return StreamedResponse(200, (), write)

    async with serving(handler) as served, served.connect() as peer:
        await peer.send(GET)
        assert (await peer.answer()).body == b"firstlast"
        await peer.send(b"GET / HTTP/1.0\r\n" + HOST + b"\r\n")
        assert (await peer.rest()).endswith(b"\r\n\r\nfirstlast")


async def test_a_stream_that_fails_is_cut_off_so_that_the_client_knows() -> None:
    error = ValueError()

    async def write(writer: Writer) -> None:
        await writer.write(b"half")
        raise error

    async def handler(request: Request) -> Answer:
        return StreamedResponse(200, (), write)

    async with serving(handler, crashes=True) as served, served.connect() as peer:
        await peer.send(GET)
        assert not (await peer.rest()).endswith(b"0\r\n\r\n")
        assert served.report.crashes == [error]


async def test_a_stream_that_cannot_go_on_is_cut_off_and_is_no_bug() -> None:
    refusal = Refusal(503, "who knows the rest is gone")

    async def write(writer: Writer) -> None:
        await writer.write(b"half")
        raise refusal

    async def handler(request: Request) -> Answer:
        return StreamedResponse(200, (), write)

    async with serving(handler) as served, served.connect() as peer:
        await peer.send(GET)
        assert not (await peer.rest()).endswith(b"0\r\n\r\n")
        assert served.report.refusals == [refusal]


async def test_a_stream_that_fails_before_its_head_is_an_ordinary_failure() -> None:
    async def write(writer: Writer) -> None:
        raise Refusal(503, "draining")

    async def handler(request: Request) -> Answer:
        return StreamedResponse(200, (), write, head_first=False)

    async with serving(handler) as served, served.connect() as peer:
        for _ in range(2):
            await peer.send(GET)
            assert (await peer.answer()).status == 503


async def test_a_stream_of_nothing_is_whole() -> None:
    async def write(writer: Writer) -> None:
        pass

    async def handler(request: Request) -> Answer:
        return StreamedResponse(200, (), write, head_first=request.path == "/first")

    async with serving(handler) as served, served.connect() as peer:
        for path in (b"/first", b"/late"):
            await peer.send(GET.replace(b"/", path, 1))
            assert (await peer.answer()).body == b""


async def test_the_head_of_a_quiet_stream_is_there_before_its_first_piece() -> None:
    go = trio.Event()

    async def write(writer: Writer) -> None:
        await go.wait()
        await writer.write(b"at last")

    async def late(writer: Writer) -> None:
        await writer.write(b"")
        await write(writer)

    async def handler(request: Request) -> Answer:
        if request.path == "/first":
            return StreamedResponse(200, (), write)
        return StreamedResponse(200, (), late, head_first=False)

    async with serving(handler) as served, served.connect() as peer:
        for path in (b"/first", b"/late"):
            await peer.send(GET.replace(b"/", path, 1))
            assert (await peer.until(b"\r\n\r\n")).startswith(b"HTTP/1.1 200 OK\r\n")
            go.set()
            assert await peer.until(b"0\r\n\r\n") == b"7\r\nat last\r\n0\r\n\r\n"
            go = trio.Event()


async def test_two_tasks_that_write_at_once_are_a_bug() -> None:
    async def write(writer: Writer) -> None:
        async with trio.open_nursery() as nursery:
            for _ in range(2):
                nursery.start_soon(writer.write, b"x" * 50_000_000)

    async def handler(request: Request) -> Answer:
        return StreamedResponse(200, (), write)

    async with serving(handler, crashes=True) as served, served.connect() as peer:
        await peer.send(GET)
        assert len(await peer.rest()) < 50_000_000
        (crash,) = served.report.crashes
        assert isinstance(crash, ExceptionGroup)
        assert isinstance(crash.exceptions[0], HandlerMisuse)


async def test_an_answer_that_has_ended_cannot_be_written_to() -> None:
    kept: list[Writer] = []

    async def write(writer: Writer) -> None:
        kept.append(writer)

    async def handler(request: Request) -> Answer:
        if kept:
            with pytest.raises(HandlerMisuse):
                await kept[0].write(b"late")
            return Response(200, (), b"next")
        return StreamedResponse(200, (), write)

    async with serving(handler) as served, served.connect() as peer:
        await peer.send(GET + GET)
        assert (await peer.answer()).body == b""
        assert (await peer.answer()).body == b"next"


async def test_an_answer_does_not_go_on_behind_half_a_write() -> None:
    async def write(writer: Writer) -> None:
        with trio.move_on_after(0.05):
            await writer.write(b"x" * 50_000_000)
        await writer.write(b"y")

    async def handler(request: Request) -> Answer:
        return StreamedResponse(200, (), write)

    async with serving(handler, crashes=True) as served, served.connect() as peer:
        await peer.send(GET)
        await until(lambda: bool(served.report.crashes))
        _, _, body = (await peer.rest()).partition(b"\r\n2faf080\r\n")
        assert set(body) == {ord("x")}
        (crash,) = served.report.crashes
        assert str(crash) == "an answer goes on behind a write that was cancelled"


async def test_a_write_that_was_cancelled_before_it_began_is_no_harm() -> None:
    async def write(writer: Writer) -> None:
        for _ in range(100):
            with trio.CancelScope() as scope:
                scope.cancel()
                await writer.write(b"x")

    async def handler(request: Request) -> Answer:
        return StreamedResponse(200, (), write)

    async with serving(handler) as served, served.connect() as peer:
        await peer.send(GET)
        body = (await peer.answer()).body
        # Those that had to let others go first were cancelled while they did.
        assert set(body) == {ord("x")}
        assert 80 < len(body) < 100


async def test_what_was_read_is_not_held_while_the_handler_works() -> None:
    async def handler(request: Request) -> Answer:
        body = await request.read()
        connection = request.body.source
        assert isinstance(connection, Connection)
        assert connection._buffer == b""
        return Response(200, (), b"%d" % len(body))

    async with serving(handler) as served, served.connect() as peer:
        await peer.send(post(b"x" * 40_000))
        assert (await peer.answer()).body == b"40000"


# Requests


@pytest.mark.parametrize(
    ("given", "kept"),
    [
        (b"abc-123_X.y:z/=@+", True),
        (b"a" * 128, True),
        (b"a" * 129, False),
        (b"", False),
        (b"a b", False),
        (b'a"', False),
        (b"a\xff", False),
    ],
)
async def test_an_id_is_the_clients_if_it_is_a_plain_word(given: bytes, kept: bool) -> None:
    async def handler(request: Request) -> Answer:
        assert request.id == request.id
        return Response(200, (), request.id.encode())

    async with serving(handler) as served, served.connect() as peer:
        await peer.send(GET[:-2] + b"X-Request-ID: " + given + b"\r\n\r\n")
        first = (await peer.answer()).body
        assert (first == given) is kept
        await peer.send(GET)
        assert (await peer.answer()).body != first


async def test_a_request_is_printed_without_what_may_be_secret() -> None:
    async def handler(request: Request) -> Answer:
        return Response(200, (), repr(request).encode())

    async with serving(handler) as served, served.connect() as peer:
        await peer.send(b"GET /a?token=x HTTP/1.1\r\nAuthorization: y\r\n" + HOST + b"\r\n")
        body = (await peer.answer()).body.decode()
        assert body.startswith("<Request GET /a from 127.0.0.1:")


async def test_a_handler_that_cancelled_itself_is_answered_and_its_connection_kept() -> (
    None
):
    scopes: list[object] = []

    async def handler(request: Request) -> Answer:
        assert request.scope is not None
        scopes.append(request.scope)
        if request.path == "/long":
            request.scope.cancel()
            with pytest.raises(trio.Cancelled):
                await trio.sleep_forever()
            return Response(409, (), b"x" * 4_000_000)
        await trio.lowlevel.checkpoint()
        return Response(200, (), b"ok")

    long = GET.replace(b" / ", b" /long ")
    async with serving(handler) as served, served.connect() as peer:
        await peer.send(GET + long + long + GET + GET)
        statuses = [(await peer.answer()).status for _ in range(5)]
    assert statuses == [200, 409, 409, 200, 200]
    assert scopes[0] is scopes[1]
    assert scopes[3] is scopes[4]
    assert len({id(each) for each in scopes}) == 3


async def test_a_handler_that_waits_once_it_has_cancelled_itself_ends_its_connection() -> (
    None
):
    async def handler(request: Request) -> Answer:
        if request.path == "/":
            return Response(200, (), b"ok")
        assert request.scope is not None
        request.scope.cancel()
        await trio.lowlevel.checkpoint()
        raise AssertionError("it was cancelled")

    async with serving(handler) as served:
        async with served.connect() as peer:
            await peer.send(GET.replace(b" / ", b" /late ") + GET)
            assert await peer.rest() == b""
        async with served.connect() as peer:
            await peer.send(GET)
            assert (await peer.answer()).status == 200


async def test_a_body_that_is_there_in_part_is_left_to_be_read() -> None:
    found: list[bytes | None] = []

    async def handler(request: Request) -> Answer:
        found.append(request.body.read_at_once())
        return Response(200, (), found[-1] or await request.read())

    whole = post(b"0123456789")
    async with serving(handler) as served, served.connect() as peer:
        await peer.send(whole)
        assert (await peer.answer()).body == b"0123456789"
        await peer.send(whole[:-4])
        await until(lambda: len(found) == 2)
        await peer.send(whole[-4:])
        assert (await peer.answer()).body == b"0123456789"
        await peer.send(
            b"POST / HTTP/1.1\r\n" + HOST + b"Transfer-Encoding: chunked\r\n\r\n"
            b"1\r\na\r\n0\r\n\r\n"
        )
        assert (await peer.answer()).body == b"a"
    assert found == [b"0123456789", None, None]
