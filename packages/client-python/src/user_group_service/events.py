"""Follows the events of an environment."""

from __future__ import annotations

import asyncio
import copy
import time
from collections.abc import AsyncGenerator, Iterator
from contextlib import aclosing
from typing import cast

from connectrpc.code import Code
from connectrpc.errors import ConnectError

from ._http import is_certificate_refused
from ._retry import backoff
from .client import AsyncClient, Client
from .errors import info_of
from .gen.usergroup.admin.v1.admin_service_pb import WatchEventsRequest, WatchEventsResponse

# Maximum pause before the next stream, in seconds.
_MAX_PAUSE = 30.0
# Time limit of a stream, in milliseconds. The limit is longer than ten minutes, because the service ends each stream
# after ten minutes.
_TIMEOUT_MS = 660_000

# Codes of temporary failures that the service reports.
_TEMPORARY = {Code.UNAVAILABLE, Code.RESOURCE_EXHAUSTED, Code.DEADLINE_EXCEEDED, Code.ABORTED}
# Codes that can mean a broken stream. These codes apply only to errors that do not come from the service. connectrpc
# reports a broken message as an invalid argument.
_BROKEN = {*_TEMPORARY, Code.CANCELED, Code.UNKNOWN, Code.INTERNAL, Code.INVALID_ARGUMENT}


def watch_events(client: Client, request: WatchEventsRequest) -> Iterator[WatchEventsResponse]:
    """Iterate over the events of an environment. If the stream ends or breaks, connect again with the last cursor.

    Store the cursor of each response after you have processed the response, and pass the stored cursor at the next
    start. A response without content contains only a new cursor.

    Raises:
        ConnectError: A permanent failure, such as `EVENT_CURSOR_EXPIRED` or a revoked API token.

    """
    position = _Position(request)
    while True:
        try:
            for response in client.admin.watch_events(position.begin(), timeout_ms=_TIMEOUT_MS):
                position.advance(response)
                yield response
            position.require_response()
        except ConnectError as error:
            time.sleep(position.pause_after(error))


async def async_watch_events(client: AsyncClient, request: WatchEventsRequest) -> AsyncGenerator[WatchEventsResponse]:
    """Iterate over events like `watch_events`, but with an `AsyncClient` and `async for`.

    If you leave the loop before its end, close the stream with `contextlib.aclosing`.
    """
    position = _Position(request)
    while True:
        try:
            stream = cast(
                AsyncGenerator[WatchEventsResponse],
                client.admin.watch_events(position.begin(), timeout_ms=_TIMEOUT_MS),
            )
            async with aclosing(stream):
                async for response in stream:
                    position.advance(response)
                    yield response
            position.require_response()
        except ConnectError as error:
            await asyncio.sleep(position.pause_after(error))


class _Position:
    """Stores the request of the next stream, and computes the pause before that stream.

    The cursor in the request is the position in the events.
    """

    def __init__(self, request: WatchEventsRequest) -> None:
        self._request = copy.copy(request)
        self._failures = 0
        self._has_response = False

    def begin(self) -> WatchEventsRequest:
        self._has_response = False
        return self._request

    def advance(self, response: WatchEventsResponse) -> None:
        self._failures = 0
        self._has_response = True
        self._request.cursor = response.cursor
        self._request.start = WatchEventsRequest.Start.UNSPECIFIED

    def require_response(self) -> None:
        """Raise a temporary error if the stream ended and no response arrived.

        After a temporary error, a pause follows before the next stream.
        """
        if not self._has_response:
            raise ConnectError(Code.UNAVAILABLE, "the stream ended without a response")

    def pause_after(self, error: ConnectError) -> float:
        """Return the pause after a failure, in seconds. Raise the error if the failure is permanent."""
        temporary = _TEMPORARY if info_of(error) else _BROKEN
        if error.code not in temporary or is_certificate_refused(error):
            raise error
        self._failures += 1
        return backoff(self._failures - 1, _MAX_PAUSE)
