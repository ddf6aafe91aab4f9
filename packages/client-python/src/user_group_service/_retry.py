"""Which calls are tried again, and when."""

from __future__ import annotations

import random
from datetime import timedelta

from connectrpc.client import ResponseMetadata
from connectrpc.code import Code
from connectrpc.errors import ConnectError

from ._http import is_certificate_refused, is_never_sent
from .errors import info_of, retry_after_of

# The longest pause before the second try. It doubles with each further try, up to the longest of all.
_FIRST_PAUSE = timedelta(milliseconds=250)
_MAX_PAUSE = timedelta(seconds=2)


def pause_after(
    error: ConnectError, answer: ResponseMetadata, *, tries: int, may_repeat: bool, left: float
) -> float | None:
    """How long to wait before a call that failed is tried again. It is tried until its deadline, to outlast a restart.

    Args:
        error: Why it failed.
        answer: The headers of the answer, if there was one.
        tries: How often it was tried by now.
        may_repeat: Whether it does no harm to repeat a call that may have had its effect.
        left: Until its deadline, in seconds.

    Returns:
        Seconds; None when it must not be tried again, or when there is no time left for it.

    """
    wait = _least_wait(error, answer, may_repeat=may_repeat)
    if wait is None:
        return None
    # Half of it is random, so that callers that failed together do not return together.
    longest = min(_FIRST_PAUSE * 2 ** min(tries - 1, 10), _MAX_PAUSE)
    pause = (wait + longest * (1 + random.random()) / 2).total_seconds()
    return pause if pause < left else None


def _least_wait(error: ConnectError, answer: ResponseMetadata, *, may_repeat: bool) -> timedelta | None:
    """How long to wait at least; None when the call must not be tried again."""
    if error.code == Code.RESOURCE_EXHAUSTED:
        # With this header nothing was done; without it another try would be refused just the same.
        return retry_after_of(error, answer)
    if error.code != Code.UNAVAILABLE or is_certificate_refused(error.__cause__):
        return None
    info = info_of(error)
    never_sent = info is None and is_never_sent(error.__cause__)
    not_made = info is not None and info.metadata.get("outcome") == "not_made"
    return timedelta() if may_repeat or never_sent or not_made else None
