"""Follows the events of an environment."""

from __future__ import annotations

import copy
import random
import time
from collections.abc import Iterator

from connectrpc.code import Code
from connectrpc.errors import ConnectError

from ._http import is_certificate_refused
from .client import Client
from .errors import info_of
from .gen.usergroup.admin.v1.admin_service_pb import WatchEventsRequest, WatchEventsResponse

# Maximum pause before the second attempt, in seconds. It doubles with each further attempt, up to _MAX_PAUSE.
_FIRST_PAUSE = 0.25
_MAX_PAUSE = 30.0
# The service ends a stream after ten minutes.
_TIMEOUT_MS = 660_000

_TEMPORARY = {Code.UNAVAILABLE, Code.RESOURCE_EXHAUSTED, Code.DEADLINE_EXCEEDED, Code.ABORTED}
# Codes of a stream that broke without an error of the service. connectrpc reports a broken message as an invalid argument.
_BROKEN = {*_TEMPORARY, Code.CANCELED, Code.UNKNOWN, Code.INTERNAL, Code.INVALID_ARGUMENT}


def watch_events(client: Client, request: WatchEventsRequest) -> Iterator[WatchEventsResponse]:
    """Iterate over the events of an environment, and connect again when the stream ends or breaks.

    Store the cursor after each response is processed, and begin with it the next time. Responses without content only
    move the cursor.

    Raises:
        ConnectError: A failure that stays, such as `EVENT_CURSOR_EXPIRED` or a revoked API token.

    """
    request = copy.copy(request)
    failures = 0
    while True:
        try:
            for response in client.admin.watch_events(request, timeout_ms=_TIMEOUT_MS):
                failures = 0
                request.cursor = response.cursor
                request.start = WatchEventsRequest.Start.UNSPECIFIED
                yield response
        except ConnectError as error:
            temporary = _TEMPORARY if info_of(error) else _BROKEN
            if error.code not in temporary or is_certificate_refused(error):
                raise
            # Half of the pause is random, so that clients do not connect at the same time.
            half = min(_FIRST_PAUSE * 2.0 ** min(failures, 10), _MAX_PAUSE) / 2
            failures += 1
            time.sleep(half * (1 + random.random()))
