"""Which calls are tried again, and when."""

from __future__ import annotations

import random
from datetime import timedelta

from connectrpc.client import ResponseMetadata
from connectrpc.code import Code
from connectrpc.errors import ConnectError
from pyqwest import ConnectTimeout

from .errors import info_of, retry_after_of

MAX_TRIES = 4

# The longest pause before the second try; it doubles with every further one.
_FIRST_PAUSE = timedelta(milliseconds=200)

# What the HTTP client raises when no connection came about.
_NEVER_SENT = (ConnectionError, ConnectTimeout)


def pause_after(
    error: ConnectError, answer: ResponseMetadata, *, tries: int, may_repeat: bool, left: float | None
) -> float | None:
    """How long to wait before a call that failed is tried again.

    Args:
        error: Why it failed.
        answer: The headers of the answer, if there was one.
        tries: How often it was tried by now.
        may_repeat: Whether it does no harm to repeat a call that may have had its effect.
        left: Until its deadline, in seconds; None: it has none.

    Returns:
        Seconds; None when it must not be tried again, or when there is no time left for it.

    """
    if tries >= MAX_TRIES:
        return None
    wait = _least_wait(error, answer, may_repeat=may_repeat)
    if wait is None:
        return None
    # Full jitter: callers that failed together do not come back together.
    jitter = _FIRST_PAUSE * 2 ** (tries - 1) * random.random()
    pause = (wait + jitter).total_seconds()
    return pause if left is None or pause < left else None


def _least_wait(error: ConnectError, answer: ResponseMetadata, *, may_repeat: bool) -> timedelta | None:
    """How long to wait at least; None when the call must not be tried again."""
    if error.code == Code.RESOURCE_EXHAUSTED:
        # With this header nothing was done; without it another try would be refused just the same.
        return retry_after_of(error, answer)
    if error.code != Code.UNAVAILABLE:
        return None
    info = info_of(error)
    never_sent = info is None and type(error.__cause__) in _NEVER_SENT
    not_made = info is not None and info.metadata.get("outcome") == "not_made"
    return timedelta() if may_repeat or never_sent or not_made else None
