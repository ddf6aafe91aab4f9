"""Interceptors that send the API token with each call, and repeat failed calls that are safe to repeat."""

from __future__ import annotations

import asyncio
import contextvars
import copy
import inspect
import threading
import time
import uuid
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Iterator
from concurrent.futures import Future
from contextlib import aclosing
from typing import Generic, Protocol, TypeVar, cast, runtime_checkable

from connectrpc.client import ResponseMetadata
from connectrpc.code import Code
from connectrpc.errors import ConnectError
from connectrpc.method import IdempotencyLevel
from connectrpc.request import RequestContext

from ._retry import is_refused, may_be_executed, pause_after
from .errors import note_request_id

_REQUEST_ID_HEADER = "x-request-id"
# If a call has no deadline, this value replaces the remaining time, in seconds.
_NO_DEADLINE = 86_400.0

REQ = TypeVar("REQ")
RES = TypeVar("RES")

Token = str | Callable[[], str]
AsyncToken = str | Callable[[], str | Awaitable[str]]

T = TypeVar("T")


class SyncCalls:
    def __init__(self, token: Token) -> None:
        self._token = _checked_if_text(token)

    def intercept_unary_sync(
        self, call_next: Callable[[REQ, RequestContext[REQ, RES]], RES], request: REQ, ctx: RequestContext[REQ, RES]
    ) -> RES:
        call = _Call(request, ctx)
        while True:
            call.present(self._token if isinstance(self._token, str) else _by_thread(self._token, call.left()))
            with ResponseMetadata() as answer:
                try:
                    return call_next(call.request, ctx)
                except ConnectError as error:
                    pause = call.pause_after(error, answer)
            time.sleep(pause)

    def intercept_server_stream_sync(
        self,
        call_next: Callable[[REQ, RequestContext[REQ, RES]], Iterator[RES]],
        request: REQ,
        ctx: RequestContext[REQ, RES],
    ) -> Iterator[RES]:
        call = _Call(request, ctx)
        call.present(self._token if isinstance(self._token, str) else _by_thread(self._token, call.left()))
        return call_next(call.request, ctx)


class AsyncCalls:
    def __init__(self, token: AsyncToken) -> None:
        self._token = _checked_if_text(token)

    async def intercept_unary(
        self,
        call_next: Callable[[REQ, RequestContext[REQ, RES]], Awaitable[RES]],
        request: REQ,
        ctx: RequestContext[REQ, RES],
    ) -> RES:
        call = _Call(request, ctx)
        while True:
            await self._present(call)
            with ResponseMetadata() as answer:
                try:
                    return await call_next(call.request, ctx)
                except ConnectError as error:
                    _raise_cancellation(error)
                    pause = call.pause_after(error, answer)
            await asyncio.sleep(pause)

    async def intercept_server_stream(
        self,
        call_next: Callable[[REQ, RequestContext[REQ, RES]], AsyncIterator[RES]],
        request: REQ,
        ctx: RequestContext[REQ, RES],
    ) -> AsyncGenerator[RES]:
        call = _Call(request, ctx)
        await self._present(call)
        try:
            async with aclosing(cast(AsyncGenerator[RES], call_next(call.request, ctx))) as stream:
                async for response in stream:
                    yield response
        except ConnectError as error:
            _raise_cancellation(error)
            raise

    async def _present(self, call: _Call[REQ, RES]) -> None:
        call.present(self._token if isinstance(self._token, str) else await _in_time(self._token, call.left()))


def _raise_cancellation(error: ConnectError) -> None:
    """If a `CancelledError` caused the error, raise the `CancelledError` instead.

    Timeouts and task groups of asyncio expect a `CancelledError`.
    """
    if isinstance(error.__cause__, asyncio.CancelledError):
        raise error.__cause__ from None


@runtime_checkable
class _WithRequestId(Protocol):
    """A request with a field `request_id`. If this field is set, the call is safe to repeat."""

    request_id: str


class _Call(Generic[REQ, RES]):
    """The state of one call, over all attempts."""

    def __init__(self, request: REQ, ctx: RequestContext[REQ, RES]) -> None:
        self._ctx = ctx
        self._tries = 0
        # The error of the last attempt that the service may have executed.
        self._uncertain: ConnectError | None = None
        self._request_id = ctx.request_headers.setdefault(_REQUEST_ID_HEADER, str(uuid.uuid4()))
        self.request = _with_request_id(request)
        self._may_repeat = ctx.method.idempotency_level != IdempotencyLevel.UNKNOWN or isinstance(
            request, _WithRequestId
        )

    def left(self) -> float:
        """Return the remaining time of the call, in seconds."""
        left = self._ctx.timeout_ms
        return _NO_DEADLINE if left is None else max(0.0, left / 1000)

    def present(self, token: str) -> None:
        self._tries += 1
        headers = self._ctx.request_headers
        headers["authorization"] = _authorization(token)
        headers["connect-timeout-ms"] = str(int(self.left() * 1000))

    def pause_after(self, error: ConnectError, answer: ResponseMetadata) -> float:
        """Return the pause before the next attempt, in seconds. Raise the error if the call must not be repeated.

        If the error is temporary and reports that nothing was changed, but the service may have executed an earlier
        attempt, raise the error of the earlier attempt.
        """
        if error.code == Code.INVALID_ARGUMENT and error.__cause__ is not None:
            # The response is incomplete, or a program other than the service sent the response.
            error = ConnectError(Code.UNAVAILABLE, f"the response is invalid: {error.message}")
        pause = pause_after(error, answer, tries=self._tries, may_repeat=self._may_repeat, left=self.left())
        # If the service responded, the response contains the request id that the service logged.
        note_request_id(error, answer.headers.get(_REQUEST_ID_HEADER) or self._request_id)
        if pause is not None:
            if may_be_executed(error):
                self._uncertain = error
            return pause
        if self._uncertain is not None and is_refused(error, answer):
            raise self._uncertain
        raise error


def _with_request_id(request: REQ) -> REQ:
    """If the request accepts a request id and has none, return a copy of the request that has an id."""
    if isinstance(request, _WithRequestId) and request.request_id == "":
        request = copy.copy(request)
        request.request_id = str(uuid.uuid4())
    return request


def _checked_if_text(token: T) -> T:
    if isinstance(token, str):
        _authorization(token)
    elif not callable(token):
        raise TypeError("token: pass the API token as a string, or a function that returns it")
    return token


def _authorization(token: str) -> str:
    # Files with a token often end with a line break.
    text = token.strip()
    if not text:
        raise ValueError("token: it is empty; pass an API token of the service")
    if not (text.isascii() and text.isprintable() and " " not in text):
        raise ValueError("token: it has invalid characters; copy the API token again, without other text")
    return f"Token {text}"


def _by_thread(function: Callable[[], T], seconds: float) -> T:
    """Run a function in a daemon thread, and return the result. Raise an error if the function does not return within
    the time limit. A daemon thread does not block the exit of the process, even if the function never returns."""
    future = _started(function)
    try:
        return future.result(seconds)
    except TimeoutError as error:
        if future.done():
            raise
        raise _token_is_late() from error


async def _in_time(function: Callable[[], str | Awaitable[str]], seconds: float) -> str:
    limit = asyncio.timeout(seconds)
    try:
        async with limit:
            # Run a blocking function in a thread, so that the function does not block the event loop.
            is_async = inspect.iscoroutinefunction(function)
            token = function() if is_async else await asyncio.wrap_future(_started(function))
            return token if isinstance(token, str) else await token
    except TimeoutError as error:
        if not limit.expired():
            raise
        raise _token_is_late() from error


def _started(function: Callable[[], T]) -> Future[T]:
    future: Future[T] = Future()
    # A running future cannot be cancelled, so `set_result` never fails.
    future.set_running_or_notify_cancel()

    def run() -> None:
        try:
            future.set_result(function())
        except BaseException as error:
            future.set_exception(error)

    threading.Thread(target=contextvars.copy_context().run, args=(run,), daemon=True).start()
    return future


def _token_is_late() -> ConnectError:
    return ConnectError(Code.DEADLINE_EXCEEDED, "the function that returns the API token has not returned in time")
