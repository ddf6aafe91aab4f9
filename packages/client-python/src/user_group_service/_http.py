"""Sends requests with httpcore. This module starts no threads, so that a process can fork or exit at any time."""

from __future__ import annotations

import asyncio
import os
import ssl
import threading
import time
import urllib.request
import zlib
from collections.abc import AsyncIterator, Iterable, Iterator
from contextlib import asynccontextmanager, contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Generic, TypeVar
from urllib.parse import unquote, urlsplit

import httpcore
from connectrpc.code import Code
from connectrpc.errors import ConnectError
from pyqwest import FullResponse, Headers

# Maximum size of a response, in bytes. A page of groups has a few MiB.
MAX_ANSWER_BYTES = 64 * 1024 * 1024
_CONNECT_TIMEOUT = 5.0
_MAX_CONNECTIONS = 100
# Maximum time without data from a stream, in seconds.
_SILENCE = 60.0
# Time for which an idle connection stays open, in seconds.
_KEEPALIVE = 30.0

_STREAM_LIMITS = {"timeout": {"connect": _CONNECT_TIMEOUT, "read": _SILENCE, "write": _SILENCE}}
_STREAM_ERRORS = (httpcore.NetworkError, httpcore.TimeoutException, httpcore.ProtocolError, httpcore.ProxyError)

# Deadline of the current request, as a time of the clock `time.monotonic()`.
_deadline: ContextVar[float] = ContextVar("deadline")

Pairs = Iterable[tuple[str, str]]


Content = TypeVar("Content")


@dataclass(frozen=True)
class StreamAnswer(Generic[Content]):
    """A response whose content is read as it arrives.

    The attributes have the names of a pyqwest response, because the generated clients expect these names.
    """

    status: int
    headers: Headers
    content: Content
    trailers: Headers


def _headers_of(answer: httpcore.Response) -> Headers:
    return Headers([(name.decode("latin-1"), value.decode("latin-1")) for name, value in answer.headers])


class Http:
    """Sends requests and blocks until the response. Safe to use in several threads and in forked processes."""

    def __init__(
        self,
        *,
        tls: ssl.SSLContext | None = None,
        proxy: str | None = None,
        max_answer_bytes: int | None = None,
    ) -> None:
        self._tls = tls
        self._proxy = proxy
        self._max_answer_bytes = max_answer_bytes or MAX_ANSWER_BYTES
        self._processes: dict[int, _Connections] = {}

    def get(self, url: str, timeout: float) -> tuple[int, bytes]:
        """Send a GET request. Then close all connections of this process, even if the request failed.

        `timeout` is the time limit of the request, in seconds.
        """
        try:
            answer = self._request("GET", url, (), None, timeout)
        finally:
            self.close()
        return answer.status, answer.content

    def post(self, url: str, headers: Headers, content: bytes, timeout: float) -> FullResponse:
        """Send a POST request. The generated clients require this signature, which pyqwest defines."""
        return self._request("POST", url, headers.items(), content, timeout)

    @contextmanager
    def stream(
        self, method: str, url: str, headers: Headers, content: bytes, timeout: float | None
    ) -> Iterator[StreamAnswer[Iterator[bytes]]]:
        """Send a request on a separate connection, and read the response as it arrives.

        This method ignores `timeout`. The service sends data at least every 15 seconds. If no data arrives for a
        minute, the stream raises an error.
        """
        pool = httpcore.ConnectionPool(
            ssl_context=_tls_for(url, self._tls), proxy=_proxy_for(url, self._proxy), max_connections=1
        )
        try:
            with (
                pool,
                pool.stream(
                    method, url, headers=list(headers.items()), content=content, extensions=_STREAM_LIMITS
                ) as answer,
            ):
                yield StreamAnswer(answer.status, _headers_of(answer), answer.iter_stream(), Headers())
        except _STREAM_ERRORS as error:
            raise _failure(error, url) from error

    def close(self) -> None:
        if connections := self._processes.pop(os.getpid(), None):
            connections.close()

    def _request(
        self, method: str, url: str, headers: Pairs, content: bytes | None, timeout: float
    ) -> FullResponse:
        deadline = time.monotonic() + timeout
        token = _deadline.set(deadline)
        timeouts = {"connect": _CONNECT_TIMEOUT}
        try:
            with (
                self._connections(url).one(timeout) as connection,
                connection.stream(
                    method, url, headers=list(headers), content=content, extensions={"timeout": timeouts}
                ) as answer,
            ):
                body = _Body(answer, self._max_answer_bytes)
                for chunk in answer.iter_stream():
                    body.add(chunk)
                return body.whole()
        except ConnectError:
            raise
        except Exception as error:
            if time.monotonic() >= deadline:
                raise TimeoutError(f"{url} has not responded in time") from error
            raise _failure(error, url) from error
        finally:
            _deadline.reset(token)

    def _connections(self, url: str) -> _Connections:
        process = os.getpid()
        if process not in self._processes:
            # If several threads run this line at the same time, `setdefault` keeps the object of the first thread. The
            # discarded objects have no open connections.
            self._processes.setdefault(process, _Connections(_tls_for(url, self._tls), _proxy_for(url, self._proxy)))
            # If this process was forked, the other entries belong to its parent process. Remove the entries, but do not
            # close their connections, because the parent still uses the connections.
            for other in self._processes.keys() - {process}:
                self._processes.pop(other, None)
        return self._processes[process]


class _Connections:
    """The connections of a process.

    Each connection has its own httpcore pool, because httpcore searches all connections of a pool for each request.
    """

    def __init__(self, tls: ssl.SSLContext | None, proxy: httpcore.Proxy | None) -> None:
        self._tls = tls
        self._proxy = proxy
        self._free = threading.Semaphore(_MAX_CONNECTIONS)
        # The connection that was used most recently is last. The next request takes this connection.
        self._idle: list[httpcore.ConnectionPool] = []

    @contextmanager
    def one(self, timeout: float) -> Iterator[httpcore.ConnectionPool]:
        if not self._free.acquire(timeout=timeout):
            raise TimeoutError(f"all {_MAX_CONNECTIONS} connections are in use")
        try:
            try:
                connection = self._idle.pop()
            except IndexError:
                connection = self._new()
            try:
                yield connection
            finally:
                self._idle.append(connection)
        finally:
            self._free.release()

    def close(self) -> None:
        while self._idle:
            self._idle.pop().close()

    def _new(self) -> httpcore.ConnectionPool:
        return httpcore.ConnectionPool(
            ssl_context=self._tls,
            proxy=self._proxy,
            max_connections=1,
            keepalive_expiry=_KEEPALIVE,
            network_backend=_WithDeadlines(),
        )


class AsyncHttp:
    """Sends requests from asyncio. Several event loops can use one `AsyncHttp`, even at the same time."""

    def __init__(self, *, tls: ssl.SSLContext | None = None, proxy: str | None = None) -> None:
        self._tls = tls
        self._proxy = proxy
        # The keys of this mapping need no process id, because a forked process has its own event loop.
        self._loops: dict[asyncio.AbstractEventLoop, _AsyncConnections] = {}

    async def post(self, url: str, headers: Headers, content: bytes) -> FullResponse:
        """Send a POST request. The generated clients require this signature, which pyqwest defines.

        This method has no time limit, because the generated clients limit the time of the call.
        """
        timeouts = {"connect": _CONNECT_TIMEOUT}
        try:
            async with (
                self._connections(url).one() as connection,
                connection.stream(
                    "POST", url, headers=list(headers.items()), content=content, extensions={"timeout": timeouts}
                ) as answer,
            ):
                body = _Body(answer, MAX_ANSWER_BYTES)
                async for chunk in answer.aiter_stream():
                    body.add(chunk)
                return body.whole()
        except ConnectError:
            raise
        except Exception as error:
            raise _failure(error, url) from error

    @asynccontextmanager
    async def stream(
        self, method: str, url: str, headers: Headers, content: bytes
    ) -> AsyncIterator[StreamAnswer[AsyncIterator[bytes]]]:
        """Send a request on a separate connection, and read the response as it arrives, like `Http.stream`."""
        pool = httpcore.AsyncConnectionPool(
            ssl_context=_tls_for(url, self._tls), proxy=_proxy_for(url, self._proxy), max_connections=1
        )
        try:
            async with (
                pool,
                pool.stream(
                    method, url, headers=list(headers.items()), content=content, extensions=_STREAM_LIMITS
                ) as answer,
            ):
                yield StreamAnswer(answer.status, _headers_of(answer), answer.aiter_stream(), Headers())
        except _STREAM_ERRORS as error:
            raise _failure(error, url) from error

    async def aclose(self) -> None:
        if connections := self._loops.pop(asyncio.get_running_loop(), None):
            await connections.aclose()

    def _connections(self, url: str) -> _AsyncConnections:
        loop = asyncio.get_running_loop()
        if loop not in self._loops:
            # Remove event loops that the program closed without a call of `aclose`.
            self._loops = {each: its for each, its in self._loops.items() if not each.is_closed()}
            self._loops[loop] = _AsyncConnections(_tls_for(url, self._tls), _proxy_for(url, self._proxy))
        return self._loops[loop]


class _AsyncConnections:
    def __init__(self, tls: ssl.SSLContext | None, proxy: httpcore.Proxy | None) -> None:
        self._tls = tls
        self._proxy = proxy
        self._free = asyncio.Semaphore(_MAX_CONNECTIONS)
        self._idle: list[httpcore.AsyncConnectionPool] = []

    @asynccontextmanager
    async def one(self) -> AsyncIterator[httpcore.AsyncConnectionPool]:
        async with self._free:
            connection = self._idle.pop() if self._idle else self._new()
            try:
                yield connection
            finally:
                self._idle.append(connection)

    async def aclose(self) -> None:
        while self._idle:
            await self._idle.pop().aclose()

    def _new(self) -> httpcore.AsyncConnectionPool:
        return httpcore.AsyncConnectionPool(
            ssl_context=self._tls, proxy=self._proxy, max_connections=1, keepalive_expiry=_KEEPALIVE
        )


class _Body:
    def __init__(self, answer: httpcore.Response, max_bytes: int) -> None:
        self._status = answer.status
        self._headers = _headers_of(answer)
        self._gunzip = zlib.decompressobj(31) if self._headers.get("content-encoding") == "gzip" else None
        self._bytes = bytearray()
        self._max_bytes = max_bytes

    def add(self, chunk: bytes) -> None:
        self._bytes += self._gunzip.decompress(chunk, self._max_bytes + 1 - len(self._bytes)) if self._gunzip else chunk
        if len(self._bytes) > self._max_bytes:
            raise ConnectError(Code.RESOURCE_EXHAUSTED, f"the response has more than {self._max_bytes} bytes")

    def whole(self) -> FullResponse:
        if self._gunzip and not self._gunzip.eof:
            raise EOFError("the response broke off")
        return FullResponse(self._status, self._headers, bytes(self._bytes), Headers())


def is_never_sent(error: BaseException | None) -> bool:
    """Return whether a request failed before a connection existed."""
    return isinstance(error, httpcore.ConnectError | httpcore.ConnectTimeout)


def is_certificate_refused(error: BaseException | None) -> bool:
    """Return whether a request failed because the certificate of the service is not trusted.

    A retry would fail for the same reason.
    """
    return isinstance(error, httpcore.ConnectError) and isinstance(error.__context__, ssl.SSLCertVerificationError)


def _failure(error: Exception, url: str) -> ConnectError:
    parts = urlsplit(url)
    where = f"the User Group Service at {parts.scheme}://{parts.netloc}"
    if isinstance(error, httpcore.ConnectError | httpcore.ConnectTimeout | httpcore.ProxyError):
        check = "check the URL, and that the service runs"
        return ConnectError(Code.UNAVAILABLE, f"{where} cannot be reached: {check}: {error}")
    return ConnectError(Code.UNAVAILABLE, f"the connection to {where} broke before the end of the response: {error!r}")


def _tls_for(url: str, given: ssl.SSLContext | None) -> ssl.SSLContext | None:
    if given is None and url.startswith("https:"):
        # The default context uses the CA certificates of the system, or of SSL_CERT_FILE.
        return ssl.create_default_context()
    return given


def _proxy_for(url: str, given: str | None) -> httpcore.Proxy | None:
    parts = urlsplit(url)
    if given is None and not urllib.request.proxy_bypass(parts.netloc):
        given = urllib.request.getproxies().get(parts.scheme)
    if not given:
        return None
    proxy = urlsplit(given if "://" in given else f"http://{given}")
    auth = (unquote(proxy.username), unquote(proxy.password or "")) if proxy.username else None
    return httpcore.Proxy(f"{proxy.scheme}://{proxy.netloc.rpartition('@')[2]}", auth=auth)


class _WithDeadlines(httpcore.NetworkBackend):
    """Ends each operation on a connection at the deadline of the request.

    httpcore limits only the time of each operation. Without this class, a slow response of many reads could exceed the
    deadline.
    """

    def __init__(self) -> None:
        self._backend = httpcore.SyncBackend()

    def connect_tcp(
        self,
        host: str,
        port: int,
        timeout: float | None = None,
        local_address: str | None = None,
        socket_options: Iterable[httpcore.SOCKET_OPTION] | None = None,
    ) -> httpcore.NetworkStream:
        timeout = _left(timeout)
        return _StreamWithDeadlines(self._backend.connect_tcp(host, port, timeout, local_address, socket_options))


class _StreamWithDeadlines(httpcore.NetworkStream):
    def __init__(self, stream: httpcore.NetworkStream) -> None:
        self._stream = stream

    def read(self, max_bytes: int, timeout: float | None = None) -> bytes:
        return self._stream.read(max_bytes, _left(timeout))

    def write(self, buffer: bytes, timeout: float | None = None) -> None:
        self._stream.write(buffer, _left(timeout))

    def start_tls(
        self, ssl_context: ssl.SSLContext, server_hostname: str | None = None, timeout: float | None = None
    ) -> httpcore.NetworkStream:
        return _StreamWithDeadlines(self._stream.start_tls(ssl_context, server_hostname, _left(timeout)))

    def get_extra_info(self, info: str) -> object:
        return self._stream.get_extra_info(info)

    def close(self) -> None:
        self._stream.close()


def _left(timeout: float | None) -> float:
    left = _deadline.get() - time.monotonic()
    if left <= 0:
        raise TimeoutError("the request has no time left")
    return left if timeout is None else min(left, timeout)
