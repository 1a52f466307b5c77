"""Who may call: those who show the operator's token."""

import hmac

from heddle.server.http import Refusal, Request


def authorise(token: str | None, request: Request) -> None:
    """See that the caller may call.

    Args:
        token: What is to be shown; None for nothing.
        request: Shows it, or does not.

    Raises:
        Refusal: 401; it shows none, or another.
    """
    if token is None:
        return
    given = request.headers.get("authorization") or ""
    scheme, _, credential = given.partition(" ")
    if scheme.lower() != "bearer" or not is_token(token, credential.strip()):
        raise unauthorised()


def is_token(token: str, given: str) -> bool:
    """Whether both are the same, in a time that tells nothing about where they differ."""
    return hmac.compare_digest(
        token.encode(errors="surrogatepass"), given.encode(errors="surrogatepass")
    )


def unauthorised() -> Refusal:
    """The token is missing or another one."""
    return Refusal(
        401,
        "this server asks for a token",
        fix="Send 'Authorization: Bearer TOKEN'.",
        headers=(("WWW-Authenticate", "Bearer"),),
    )
