"""The clients: one that blocks, and one for asyncio."""

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
    """Calls the service, and blocks until it has answered. It may be used by several threads, and after a fork.

    Attributes:
        user_groups: Gets, changes and creates user groups, and rotates their tokens.
        viewers: Makes viewer sessions, and tells whose a token or a session is.
        admin: AdminService, for API tokens of the role `admin`, and `ADMIN_TOKEN`.

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
        """Make a client. It connects with the first call.

        Args:
            url: Where the service is, such as `https://groups.example.com`.
            token: The API token, or a function that returns it, which is called before each try, in a thread of its own.
            timeout_ms: How long a call may take, its retries included, unless the call says otherwise.
            ca_file: The authorities that the service's certificate must be of, in PEM. Default: those of the system.
            tls: What TLS is made with instead, such as for a client certificate.
            proxy: The proxy's URL; empty: none. Default: that of `HTTPS_PROXY` or `HTTP_PROXY`, but for hosts of `NO_PROXY`.
            interceptors: Called around each try, token included: for logs, metrics and traces.

        """
        self._http = Http(tls=_tls(ca_file, tls), proxy=proxy)
        address, timeout_ms, calls = _address(url), _time(timeout_ms), (SyncCalls(token), *interceptors)
        # All that the generated clients call of it is `post`.
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
    """Calls the service from asyncio. Its attributes are those of `Client`; their methods are coroutines."""

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
        """Make a client, as `Client` does. The function that gives the token may be a coroutine function."""
        self._http = AsyncHttp(tls=_tls(ca_file, tls), proxy=proxy)
        address, timeout_ms, calls = _address(url), _time(timeout_ms), (AsyncCalls(token), *interceptors)
        http = cast(PyqwestClient, self._http)
        self.user_groups = UserGroupServiceClient(address, http_client=http, interceptors=calls, timeout_ms=timeout_ms)
        self.viewers = ViewerServiceClient(address, http_client=http, interceptors=calls, timeout_ms=timeout_ms)
        self.admin = AdminServiceClient(address, http_client=http, interceptors=calls, timeout_ms=timeout_ms)

    async def aclose(self) -> None:
        """Close the connections of the event loop that runs."""
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
        raise ValueError(f"url: it begins with http:// or https:// and a host, not as {url[:300]!r} does")
    if parts.username is not None or parts.query or parts.fragment:
        raise ValueError("url: it has no password, query or fragment; the API token is given as token")
    return url.rstrip("/")


def _time(timeout_ms: int) -> int:
    if timeout_ms <= 0:
        raise ValueError(f"timeout_ms: it is a positive number of milliseconds, not {timeout_ms}")
    return timeout_ms


def _tls(ca_file: str | None, tls: ssl.SSLContext | None) -> ssl.SSLContext | None:
    if ca_file is None:
        return tls
    if tls is not None:
        raise ValueError("give ca_file or tls, not both: tls.load_verify_locations(ca_file) has it too")
    return ssl.create_default_context(cafile=ca_file)
