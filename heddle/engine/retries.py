"""Whether a failed request is sent again, and when, as the document's policy says.

    again   1    2    3       initial_retry_delay 1, backoff_factor 2, max_retry_delay 8
    about   1 s  2 s  4 s     the jitter picks from there

One `Retries` a request, a model call, a use of a tool: it keeps count of how often that
was tried again.
"""

from random import Random
from typing import Final, NamedTuple

from heddle.spec import RetryPolicy

MAX_RETRY_AFTER: Final = 30.0
"""Seconds. A service that asks for more is asked again after this long: the longest that
a policy of the operator may wait, too."""

MOST_AGAIN: Final = 10
"""Times that a request or a use of a tool is tried again, whatever a document asks for.
Without a bound a flow that was sent to a server could have it knock at some other service
as fast as it can, until the run's time is up."""

NOT_IMPLEMENTED: Final = 501

# Not for secrets: it keeps those who wait from all coming back at once.
JITTER: Final = Random()  # noqa: S311


class Failure(NamedTuple):
    """How a request failed, as far as trying again depends on it.

    ``status`` is None when there was no answer; ``retryable`` counts then. ``codes`` are
    what the answer gives as the code of its error.
    """

    status: int | None = None
    retryable: bool = False
    retry_after_ms: float | None = None
    codes: tuple[str, ...] = ()


def failure_of(fault: Exception) -> Failure:
    """That of a fault which has these as its fields, or some of them."""
    return Failure(
        getattr(fault, "status", None),
        getattr(fault, "retryable", False),
        getattr(fault, "retry_after_ms", None),
        getattr(fault, "codes", ()),
    )


class Retries:
    """How often one thing was tried again.

    Args:
        policy: The document's; None for one that tries nothing again. It is followed up to
            `MOST_AGAIN` times.
        whatever: Try again after any failure, for what has no status to go by.
        rng: Where the jitter comes from.
    """

    __slots__ = ("_again", "_policy", "_rng", "_whatever")

    def __init__(
        self,
        policy: RetryPolicy | None,
        *,
        whatever: bool = False,
        rng: Random = JITTER,
    ) -> None:
        self._policy = policy
        self._whatever = whatever
        self._rng = rng
        self._again = 0

    def after(self, failure: Failure) -> float | None:
        """Seconds to wait until the next attempt, which is counted; None for no further."""
        policy = self._policy
        if policy is None or self._again >= min(policy.max_attempts, MOST_AGAIN):
            return None
        if not (self._whatever or is_retried(failure, policy)):
            return None
        self._again += 1
        return retry_delay(self._again, failure, policy, rng=self._rng)

    def announced(
        self,
        what: object,
        delay: float,
        *,
        attempt: int | None = None,
        most: int | None = None,
    ) -> str:
        """The warning for it: what failed, and when it is tried again.

        Where others may have it tried again too, ``attempt`` is how often it was tried by
        now, and ``most`` how often it may be.
        """
        assert self._policy is not None, "it is tried again"
        now = self._again if attempt is None else attempt
        last = now + 1 + min(self._policy.max_attempts, MOST_AGAIN) - self._again
        of = last if most is None else min(last, most)
        return (
            f"{what}; trying again in {delay:.1f} s (attempt {now + 1} of {of}, by the "
            "retry_policy)"
        )


def is_retried(failure: Failure, policy: RetryPolicy) -> bool:
    """Whether this failure is one that the policy tries again after."""
    status = failure.status
    if status is None:
        return failure.retryable
    served_badly = status >= 500 and status != NOT_IMPLEMENTED
    if served_badly and policy.service_error_retry_on_any_5xx:
        return True
    codes = policy.recoverable_statuses.get(str(status))
    return codes is not None and (not codes or not set(codes).isdisjoint(failure.codes))


def retry_delay(again: int, failure: Failure, policy: RetryPolicy, *, rng: Random) -> float:
    """Pick the wait before trying again.

    Args:
        again: How many times it is tried again with this one, from 1.
        failure: How the last attempt failed; the service may have asked for a wait.
        policy: The document's.
        rng: Where the jitter comes from; tests pass a seeded one.

    Returns:
        Seconds, at least 0.

    Source:
        RetryPolicy of Agent Spec, whose formulas these are.
    """
    longest = policy.max_retry_delay
    try:
        grown = policy.initial_retry_delay * policy.backoff_factor ** (again - 1)
    except OverflowError:
        grown = longest
    base = min(grown, longest)
    jitter = policy.jitter
    if jitter == "full_and_equal_for_throttle":
        throttled = failure.status is not None and 400 <= failure.status < 500
        jitter = "equal" if throttled else "full"
    match jitter:
        case None:
            delay = base
        case "full":
            delay = min(rng.uniform(0, grown), longest)
        case "equal":
            delay = base * (1 + rng.random()) / 2
        case "decorrelated":
            delay = min(grown + rng.random(), longest)
    if failure.retry_after_ms is not None:
        delay = max(delay, min(failure.retry_after_ms / 1000, MAX_RETRY_AFTER))
    return delay
