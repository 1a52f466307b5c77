import pytest

from heddle.hosts import ascii_host, authority


@pytest.mark.parametrize(
    ("host", "sent"),
    [
        ("host", "host"),
        ("under_score.example.", "under_score.example."),
        ("bücher.example", "xn--bcher-kva.example"),
        ("127.0.0.1", "127.0.0.1"),
        ("::1", "::1"),
    ],
)
def test_a_host_is_sent_in_ascii(host: str, sent: str) -> None:
    assert ascii_host(host) == sent


@pytest.mark.parametrize("host", ["a..b", ".", "x" * 64, "ü" * 64])
def test_a_host_that_no_name_server_could_know_is_refused(host: str) -> None:
    with pytest.raises(ValueError, match="its host name cannot be encoded"):
        ascii_host(host)


@pytest.mark.parametrize(
    ("scheme", "host", "port", "written"),
    [
        ("http", "host", 80, "host"),
        ("https", "host", 443, "host"),
        ("https", "host", 80, "host:80"),
        ("http", "::1", 4319, "[::1]:4319"),
        ("http", "::1", 80, "[::1]"),
    ],
)
def test_a_port_is_written_where_it_does_not_go_without_saying(
    scheme: str, host: str, port: int, written: str
) -> None:
    assert authority(scheme, host, port) == written
