"""Decides whether and when a call is repeated."""

from __future__ import annotations

import random
from datetime import timedelta

from connectrpc.client import ResponseMetadata
from connectrpc.code import Code
from connectrpc.errors import ConnectError

from ._http import is_certificate_refused, is_never_sent
from .errors import info_of, retry_after_of

# Maximum pause before the second attempt. For each attempt after the second, the maximum doubles, up to _MAX_PAUSE.
_FIRST_PAUSE = timedelta(milliseconds=250)
_MAX_PAUSE = timedelta(seconds=2)


def pause_after(
    error: ConnectError, answer: ResponseMetadata, *, tries: int, may_repeat: bool, left: float
) -> float | None:
    """Return the pause before the next attempt.

    Args:
        error: The error of the call.
        answer: The headers of the response, if one arrived.
        tries: The number of attempts so far.
        may_repeat: Whether a retry is safe even if the failed attempt took effect.
        left: The time until the deadline, in seconds.

    Returns:
        The pause in seconds. None if the call must not be repeated, or if the pause would end after the deadline.

    """
    wait = _least_wait(error, answer, may_repeat=may_repeat)
    if wait is None:
        return None
    # Half of the pause is random, so that clients do not retry at the same time.
    longest = min(_FIRST_PAUSE * 2 ** min(tries - 1, 10), _MAX_PAUSE)
    pause = (wait + longest * (1 + random.random()) / 2).total_seconds()
    return pause if pause < left else None


def _least_wait(error: ConnectError, answer: ResponseMetadata, *, may_repeat: bool) -> timedelta | None:
    """Return the minimum pause. None if the call must not be repeated."""
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
