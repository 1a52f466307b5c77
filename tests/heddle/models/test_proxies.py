"""The environment decides which proxy a request goes through."""

import pytest

from heddle.models.endpoint import Origin, Secret
from heddle.models.errors import EndpointInvalid
from heddle.models.proxies import Proxy, read_proxies

PLAIN = Origin("http", "model.example", 8000)
SECURE = Origin("https", "model.example", 443)


def way(origin: Origin, **environ: str) -> str:
    proxy = read_proxies(environ).proxy_for(origin)
    return "direct" if proxy is None else str(proxy.origin)


def test_without_variables_everything_is_reached_directly() -> None:
    assert way(PLAIN) == way(SECURE) == "direct"
    assert way(PLAIN, HTTP_PROXY="", HTTPS_PROXY=" ") == "direct"


def test_each_scheme_has_its_variable_and_all_stands_for_both() -> None:
    environ = {"HTTP_PROXY": "http://a:1", "ALL_PROXY": "http://b:2"}

    assert way(PLAIN, **environ) == "http://a:1"
    assert way(SECURE, **environ) == "http://b:2"
    assert way(SECURE, HTTPS_PROXY="http://c:3", **environ) == "http://c:3"


def test_the_lower_case_name_wins() -> None:
    assert way(PLAIN, http_proxy="http://low:1", HTTP_PROXY="http://up:1") == "http://low:1"
    assert way(PLAIN, all_proxy="http://low:1", ALL_PROXY="http://up:1") == "http://low:1"


def test_a_proxy_may_be_written_without_scheme_and_with_a_password() -> None:
    proxies = read_proxies({"http_proxy": "me:p%40ss@proxy:3128"})

    assert proxies.proxy_for(PLAIN) == Proxy(
        Origin("http", "proxy", 3128), Secret("me:p@ss")
    )
    assert "p@ss" not in repr(proxies)
    assert "p%40ss" not in repr(proxies)


@pytest.mark.parametrize(
    ("value", "reason"),
    [
        ("socks5://me:secret@proxy:1080", "the scheme is 'socks5'"),
        ("http://me:secret@proxy:port", "Port could not be cast"),
        ("http://", "it has no host"),
    ],
)
def test_what_is_no_http_proxy_is_refused_without_its_password(
    value: str, reason: str
) -> None:
    with pytest.raises(EndpointInvalid, match=reason) as caught:
        read_proxies({"HTTPS_PROXY": value})

    assert str(caught.value).startswith("environment variable HTTPS_PROXY: is not the URL")
    assert "secret" not in str(caught.value)


@pytest.mark.parametrize(
    ("host", "port", "exempt"),
    [
        ("model.example", 443, True),
        ("MODEL.example", 443, True),
        ("a.model.example", 443, True),
        ("amodel.example", 443, False),
        ("dotted.example", 443, True),
        ("deep.dotted.example", 443, True),
        ("starred.example", 443, True),
        ("ported.example", 8443, True),
        ("ported.example", 443, False),
        ("10.1.2.3", 443, True),
        ("10.2.2.3", 443, False),
        ("127.0.0.1", 443, True),
        ("127.0.0.2", 443, False),
        ("::1", 443, True),
        ("::2", 9, True),
        ("::2", 8, False),
        ("other.example", 443, False),
    ],
)
@pytest.mark.parametrize("variable", ["no_proxy", "NO_PROXY"])
def test_names_addresses_and_networks_can_be_exempt(
    variable: str, host: str, port: int, exempt: bool
) -> None:
    listed = (
        "model.example, .dotted.example *.starred.example,ported.example:8443,,"
        "10.1.0.0/16,127.0.0.1,::1,[::2]:9"
    )

    found = way(Origin("https", host, port), HTTPS_PROXY="http://p:1", **{variable: listed})

    assert found == ("direct" if exempt else "http://p:1")


def test_a_star_exempts_everything() -> None:
    assert way(SECURE, HTTPS_PROXY="http://p:1", NO_PROXY="*") == "direct"
