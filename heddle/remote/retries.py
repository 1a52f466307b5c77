"""Whether a failed request is sent again, and when, as the document's policy says.

attempt   1    2    3       initial_retry_delay 1, backoff_factor 2, max_retry_delay 8
at most   1 s  2 s  4 s     the jitter picks from there
"""

from random import Random
from typing import Final

from heddle.remote.errors import RemoteError
from heddle.spec import RetryPolicy

MAX_RETRY_AFTER: Final = 30.0
"""Seconds. A service that asks for more is asked again after this long: the longest that
a policy of the operator may wait, too."""

NOT_IMPLEMENTED: Final = 501


def is_retried(error: RemoteError, policy: RetryPolicy) -> bool:
    """Whether this failure is one that the policy tries again after."""
    status = error.status
    if status is None:
        return error.retryable
    served_badly = status >= 500 and status != NOT_IMPLEMENTED
    if served_badly and policy.service_error_retry_on_any_5xx:
        return True
    codes = policy.recoverable_statuses.get(str(status))
    return codes is not None and (not codes or not set(codes).isdisjoint(error.codes))


def retry_delay(
    attempt: int,
    previous: float,
    error: RemoteError,
    policy: RetryPolicy,
    *,
    rng: Random,
) -> float:
    """Pick the wait before the next attempt.

    Args:
        attempt: Attempts already made, from 1.
        previous: The wait before this one; 0 for none.
        error: How the last one failed; the service may have asked for a wait.
        policy: The document's.
        rng: Where the jitter comes from; tests pass a seeded one.

    Returns:
        Seconds, at least 0.

    Source:
        M. Brooker, "Exponential Backoff And Jitter", AWS Architecture Blog, 2015.
    """
    longest = policy.max_retry_delay
    try:
        grown = policy.initial_retry_delay * policy.backoff_factor ** (attempt - 1)
    except OverflowError:
        grown = longest
    base = min(grown, longest)
    jitter = policy.jitter
    if jitter == "full_and_equal_for_throttle":
        throttled = error.status is not None and 400 <= error.status < 500
        jitter = "equal" if throttled else "full"
    match jitter:
        case None:
            delay = base
        case "full":
            delay = rng.uniform(0, base)
        case "equal":
            delay = base / 2 + rng.uniform(0, base / 2)
        case "decorrelated":
            first = policy.initial_retry_delay
            delay = min(longest, rng.uniform(first, max(first, previous * 3)))
    if error.retry_after_ms is not None:
        delay = max(delay, min(error.retry_after_ms / 1000, MAX_RETRY_AFTER))
    return delay
