"""What can go wrong between heddle and a model, one class a kind of fault.

Every sentence names the LLM config and its origin, never the credential. The words
"timed out" and the status number stand in the sentence, because policies look for them.
"""

from typing import Final

from heddle.attempts import AttemptFailed

# A provider's own words beyond this are a page, not a message.
MESSAGE_LIMIT: Final = 500
_QUOTE_SHOWN: Final = 200


class ModelError(AttemptFailed):
    """A model call that gave no answer.

    Args:
        provider_message: What the provider said, shortened, without the credential.
    """

    def __init__(
        self,
        what: str,
        *,
        where: str = "",
        fix: str = "",
        status: int | None = None,
        retry_after_ms: float | None = None,
        retryable: bool = False,
        provider_message: str = "",
        codes: tuple[str, ...] = (),
    ) -> None:
        super().__init__(
            what,
            where=where,
            fix=fix,
            status=status,
            retry_after_ms=retry_after_ms,
            retryable=retryable,
            codes=codes,
        )
        self.provider_message = provider_message


class EndpointInvalid(ModelError):
    """The LLM config cannot be made into an endpoint: the document's fault."""


class CredentialMissing(ModelError):
    """The LLM config names a credential that is not there, or no usable one."""


class RequestInvalid(ModelError):
    """The request holds something that cannot be sent, such as half a character."""


class ModelUnreachable(ModelError):
    """No connection, or one that broke before anything of an answer arrived."""


class ModelTimedOut(ModelError):
    """Connecting, the first byte, or the next one took too long."""


class ModelProtocolError(ModelError):
    """Something answered, but not as the protocol says."""


class ModelRefused(ModelError):
    """The provider answered with an error, or a redirect."""


class ModelRateLimited(ModelRefused):
    """429: too many requests, or a quota that is used up."""


class ModelServerError(ModelRefused):
    """5xx: the fault is the provider's."""


class ScriptFault(ModelError):
    """The script of a scripted model is malformed or has come to its end."""


class UnreadableAnswer(Exception):
    """Raised by the pure readers: bytes that are no answer.

    The client, who knows the endpoint, makes a `ModelProtocolError` of it. ``quote`` is
    how the bytes begin. It is shortened when it is shown and not before: half of a
    credential could not be struck out of it.
    """

    def __init__(self, what: str, *, quote: str = "", retryable: bool = False) -> None:
        super().__init__(what, quote)
        self.retryable = retryable

    def __str__(self) -> str:
        what, quote = self.args
        return f"{what}: {quote[:_QUOTE_SHOWN]!r}" if quote else str(what)


class ProviderComplaint(Exception):
    """Raised by the pure readers: an error of the provider inside a 200 answer."""

    def __init__(self, message: str, status: int | None) -> None:
        super().__init__(message)
        self.message = message
        self.status = status
