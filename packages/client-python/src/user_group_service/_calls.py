"""What every call passes: it presents the API token, and is tried again where that is safe."""

from __future__ import annotations

import asyncio
import copy
import inspect
import time
import uuid
from collections.abc import Awaitable, Callable
from typing import TypeVar

from connectrpc.client import ResponseMetadata
from connectrpc.errors import ConnectError
from connectrpc.method import IdempotencyLevel
from connectrpc.request import RequestContext

from ._retry import pause_after
from .gen.usergroup.v1.user_group_service_pb import RotateUserGroupTokenRequest

REQ = TypeVar("REQ")
RES = TypeVar("RES")

Token = str | Callable[[], str]
AsyncToken = str | Callable[[], str | Awaitable[str]]

T = TypeVar("T")


class SyncCalls:
    """The interceptor of `Client`."""

    def __init__(self, token: Token) -> None:
        self._token = _checked_if_text(token)

    def intercept_unary_sync(
        self, call_next: Callable[[REQ, RequestContext[REQ, RES]], RES], request: REQ, ctx: RequestContext[REQ, RES]
    ) -> RES:
        request = _repeatable(request)
        tries = 0
        while True:
            tries += 1
            token = self._token if isinstance(self._token, str) else self._token()
            _prepare(ctx, token)
            with ResponseMetadata() as answer:
                try:
                    return call_next(request, ctx)
                except ConnectError as error:
                    pause = _pause(error, answer, request, ctx, tries)
                    if pause is None:
                        raise
            time.sleep(pause)


class AsyncCalls:
    """The interceptor of `AsyncClient`."""

    def __init__(self, token: AsyncToken) -> None:
        self._token = _checked_if_text(token)

    async def intercept_unary(
        self,
        call_next: Callable[[REQ, RequestContext[REQ, RES]], Awaitable[RES]],
        request: REQ,
        ctx: RequestContext[REQ, RES],
    ) -> RES:
        request = _repeatable(request)
        tries = 0
        while True:
            tries += 1
            token = self._token if isinstance(self._token, str) else self._token()
            _prepare(ctx, await token if inspect.isawaitable(token) else token)
            with ResponseMetadata() as answer:
                try:
                    return await call_next(request, ctx)
                except ConnectError as error:
                    pause = _pause(error, answer, request, ctx, tries)
                    if pause is None:
                        raise
            await asyncio.sleep(pause)


def _checked_if_text(token: T) -> T:
    if isinstance(token, str):
        _authorization(token)
    elif not callable(token):
        raise TypeError("token: give the API token as a string, or a function that returns it")
    return token


def _authorization(token: str) -> str:
    # A file that holds a token often ends with a line break.
    text = token.strip()
    if not text:
        raise ValueError("token: it is empty; give an API token of the service")
    if not (text.isascii() and text.isprintable() and " " not in text):
        raise ValueError("token: it has characters that no API token has; was it copied whole, and alone?")
    return f"Token {text}"


def _repeatable(request: REQ) -> REQ:
    """The request with what makes it safe to repeat; the caller's own message stays as it is."""
    if isinstance(request, RotateUserGroupTokenRequest) and request.request_id == "":
        request = copy.copy(request)
        request.request_id = str(uuid.uuid4())
    return request


def _prepare(ctx: RequestContext[REQ, RES], token: str) -> None:
    ctx.request_headers["authorization"] = _authorization(token)
    left = ctx.timeout_ms
    if left is not None:
        # A later try has less time than the first.
        ctx.request_headers["connect-timeout-ms"] = str(max(0, int(left)))


def _pause(
    error: ConnectError, answer: ResponseMetadata, request: object, ctx: RequestContext[REQ, RES], tries: int
) -> float | None:
    left = ctx.timeout_ms
    return pause_after(
        error,
        answer,
        tries=tries,
        may_repeat=ctx.method.idempotency_level != IdempotencyLevel.UNKNOWN
        or isinstance(request, RotateUserGroupTokenRequest),
        left=None if left is None else left / 1000,
    )
