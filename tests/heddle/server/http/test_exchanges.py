"""Requests and answers on one connection, over a real socket."""

import pytest

from heddle.server.http import (
    JSON,
    Answer,
    Request,
    Response,
    StreamedResponse,
    Writer,
)
from tests.heddle.server.http.support import GET, HOST, echo, ok, post, serving


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
