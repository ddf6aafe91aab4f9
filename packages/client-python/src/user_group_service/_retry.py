"""Decides whether the client repeats a failed call, and after which pause."""

from __future__ import annotations

import random
from datetime import timedelta

from connectrpc.client import ResponseMetadata
from connectrpc.code import Code
from connectrpc.errors import ConnectError

from ._http import is_certificate_refused, is_never_sent
from .errors import info_of, retry_after_of

# Maximum pause after the first failure, in seconds. The maximum doubles with each failure that follows.
_FIRST_PAUSE = 0.25
_MAX_PAUSE = 2.0


def backoff(earlier_failures: int, max_pause: float) -> float:
    """Return a pause of at most max_pause seconds. The pause grows with the number of earlier failures."""
    # Half of the pause is random, so that clients do not retry at the same time.
    half = min(_FIRST_PAUSE * 2.0 ** min(earlier_failures, 10), max_pause) / 2
    return half * (1 + random.random())


def pause_after(
    error: ConnectError, answer: ResponseMetadata, *, tries: int, may_repeat: bool, left: float
) -> float | None:
    """Return the pause before the next attempt.

    Args:
        error: The error of the call.
        answer: The headers of the response, if one arrived.
        tries: The number of attempts so far.
        may_repeat: Whether a retry is safe even if the service has executed the failed attempt.
        left: The time until the deadline, in seconds.

    Returns:
        The pause in seconds. None if the call must not be repeated, or if the pause would end after the deadline.

    """
    wait = _least_wait(error, answer, may_repeat=may_repeat)
    if wait is None:
        return None
    pause = wait.total_seconds() + backoff(tries - 1, _MAX_PAUSE)
    return pause if pause < left else None


def may_be_executed(error: ConnectError) -> bool:
    """Return whether the service may have executed an attempt that failed with a temporary error."""
    info = info_of(error)
    if info is not None:
        return info.metadata.get("outcome") == "unknown"
    return error.code != Code.RESOURCE_EXHAUSTED and not is_never_sent(error.__cause__)


def is_refused(error: ConnectError, answer: ResponseMetadata) -> bool:
    """Return whether a temporary error reports that nothing was changed."""
    if error.code == Code.RESOURCE_EXHAUSTED:
        return retry_after_of(error, answer) is not None
    info = info_of(error)
    return info is not None and info.metadata.get("outcome") == "not_made"


def _least_wait(error: ConnectError, answer: ResponseMetadata, *, may_repeat: bool) -> timedelta | None:
    """Return the pause that the server requests, or 0. Return None if the call must not be repeated."""
    if error.code == Code.RESOURCE_EXHAUSTED:
        # If the server requests a pause, the server has not executed the call. If the server requests no pause, the
        # caller has reached a lasting limit, such as the maximum number of API tokens. A retry would fail as well.
        return retry_after_of(error, answer)
    if error.code != Code.UNAVAILABLE or is_certificate_refused(error.__cause__):
        return None
    info = info_of(error)
    never_sent = info is None and is_never_sent(error.__cause__)
    not_made = info is not None and info.metadata.get("outcome") == "not_made"
    return timedelta() if may_repeat or never_sent or not_made else None
