"""A blocking client, and a client for asyncio."""

from __future__ import annotations

import ssl
from collections.abc import Sequence
from types import TracebackType
from typing import Self, cast
from urllib.parse import urlsplit

from connectrpc.interceptor import Interceptor, InterceptorSync
from pyqwest import Client as PyqwestClient
from pyqwest import SyncClient as PyqwestSyncClient

from ._calls import AsyncCalls, AsyncToken, SyncCalls, Token
from ._http import AsyncHttp, Http
from .gen.usergroup.admin.v1.admin_service_connect import AdminServiceClient, AdminServiceClientSync
from .gen.usergroup.v1.user_group_service_connect import UserGroupServiceClient, UserGroupServiceClientSync
from .gen.usergroup.v1.viewer_service_connect import ViewerServiceClient, ViewerServiceClientSync

_TIMEOUT_MS = 10_000


class Client:
    """Calls the service, and blocks until the response arrives.

    Several threads can use one client. After a fork, the child process can use the client of its parent.

    Attributes:
        user_groups: Creates, gets and changes user groups, and rotates their tokens.
        viewers: Creates viewer sessions, and resolves tokens and sessions to user groups.
        admin: Manages environments, API tokens and webhooks. Needs an API token of role `admin`, or `ADMIN_TOKEN`.

    """

    def __init__(
        self,
        url: str,
        token: Token,
        *,
        timeout_ms: int = _TIMEOUT_MS,
        ca_file: str | None = None,
        tls: ssl.SSLContext | None = None,
        proxy: str | None = None,
        interceptors: Sequence[InterceptorSync] = (),
    ) -> None:
        """Create a client. The client connects at the first call.

        Args:
            url: URL of the service, such as `https://groups.example.com`.
            token: The API token, or a function that returns the token. The client calls the function in a thread before
                each attempt.
            timeout_ms: Limit of the total time of a call and its retries, in milliseconds. The argument `timeout_ms` of
                a call overrides this limit.
            ca_file: File with CA certificates in PEM. The client uses them to verify the certificate of the service.
                Default: the CA certificates of the system.
            tls: An SSL context, for example for a client certificate. Set `tls` or `ca_file`, not both.
            proxy: URL of a proxy. If empty, the client uses no proxy. Default: the proxy in the variable `HTTPS_PROXY`
                or `HTTP_PROXY`. If `NO_PROXY` contains the host of `url`, the default is no proxy.
            interceptors: Interceptors that run for each attempt, for example to write logs or traces.

        Raises:
            ValueError: An option is invalid.

        """
        self._http = Http(tls=_tls(ca_file, tls), proxy=proxy)
        address, timeout_ms, calls = _address(url), _time(timeout_ms), (SyncCalls(token), *interceptors)
        # `Http` has only the methods `post` and `stream`, because the generated clients call no other method.
        http = cast(PyqwestSyncClient, self._http)
        self.user_groups = UserGroupServiceClientSync(
            address, http_client=http, interceptors=calls, timeout_ms=timeout_ms
        )
        self.viewers = ViewerServiceClientSync(address, http_client=http, interceptors=calls, timeout_ms=timeout_ms)
        self.admin = AdminServiceClientSync(address, http_client=http, interceptors=calls, timeout_ms=timeout_ms)

    def close(self) -> None:
        """Close the connections."""
        self._http.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close()


class AsyncClient:
    """Calls the service from asyncio.

    The attributes have the same names as in `Client`, but their methods are coroutine functions.
    """

    def __init__(
        self,
        url: str,
        token: AsyncToken,
        *,
        timeout_ms: int = _TIMEOUT_MS,
        ca_file: str | None = None,
        tls: ssl.SSLContext | None = None,
        proxy: str | None = None,
        interceptors: Sequence[Interceptor] = (),
    ) -> None:
        """Create a client. The options are those of `Client`, but `token` can also be a coroutine function."""
        self._http = AsyncHttp(tls=_tls(ca_file, tls), proxy=proxy)
        address, timeout_ms, calls = _address(url), _time(timeout_ms), (AsyncCalls(token), *interceptors)
        http = cast(PyqwestClient, self._http)
        self.user_groups = UserGroupServiceClient(address, http_client=http, interceptors=calls, timeout_ms=timeout_ms)
        self.viewers = ViewerServiceClient(address, http_client=http, interceptors=calls, timeout_ms=timeout_ms)
        self.admin = AdminServiceClient(address, http_client=http, interceptors=calls, timeout_ms=timeout_ms)

    async def aclose(self) -> None:
        """Close the connections of the running event loop."""
        await self._http.aclose()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        await self.aclose()


def _address(url: str) -> str:
    parts = urlsplit(url)
    if parts.scheme not in ("http", "https") or not parts.hostname:
        raise ValueError(f"url: {url[:300]!r} must begin with http:// or https:// and the name of a host")
    if parts.username is not None or parts.query or parts.fragment:
        raise ValueError("url: it must have no password, query or fragment; pass the API token as `token`")
    return url.rstrip("/")


def _time(timeout_ms: int) -> int:
    if timeout_ms <= 0:
        raise ValueError(f"timeout_ms: it must be a positive number of milliseconds, not {timeout_ms}")
    return timeout_ms


def _tls(ca_file: str | None, tls: ssl.SSLContext | None) -> ssl.SSLContext | None:
    if ca_file is None:
        return tls
    if tls is not None:
        raise ValueError("pass ca_file or tls, not both: use tls.load_verify_locations(ca_file)")
    return ssl.create_default_context(cafile=ca_file)
