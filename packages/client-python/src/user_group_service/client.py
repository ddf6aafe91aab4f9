"""The clients: one that blocks, and one for asyncio."""

from __future__ import annotations

from types import TracebackType
from typing import Self

from pyqwest import Client as HttpClient
from pyqwest import HTTPTransport, SyncClient, SyncHTTPTransport

from ._calls import AsyncCalls, AsyncToken, SyncCalls, Token
from .gen.usergroup.admin.v1.admin_service_connect import AdminServiceClient, AdminServiceClientSync
from .gen.usergroup.v1.user_group_service_connect import UserGroupServiceClient, UserGroupServiceClientSync
from .gen.usergroup.v1.viewer_service_connect import ViewerServiceClient, ViewerServiceClientSync

_TIMEOUT_MS = 10_000
_CONNECT_TIMEOUT_S = 5.0


class Client:
    """Calls the service, and blocks until it has answered. It may be used by several threads.

    Attributes:
        user_groups: Gets, changes and creates user groups, and rotates their tokens.
        viewers: Makes viewer sessions, and tells whose a token or a session is.
        admin: AdminService, for API tokens of the role `admin`, and `ADMIN_TOKEN`.

    """

    def __init__(
        self, url: str, token: Token, *, timeout_ms: int = _TIMEOUT_MS, ca_file: str | None = None
    ) -> None:
        """Make a client. It connects with the first call.

        Args:
            url: Where the service is, such as `https://groups.example.com`.
            token: The API token, or a function that returns it, which is called before each try.
            timeout_ms: How long a call may take, its retries included, unless the call says otherwise.
            ca_file: The authorities that the service's certificate must be of, in PEM. Default: those of the system.

        """
        transport = SyncHTTPTransport(
            tls_include_system_certs=ca_file is None,
            tls_ca_cert=_read(ca_file),
            connect_timeout=_CONNECT_TIMEOUT_S,
            # The service sends none, and no other host shall see the token.
            follow_redirects=False,
        )
        self._transport = transport
        address, http, calls = _address(url), SyncClient(transport), [SyncCalls(token)]
        self.user_groups = UserGroupServiceClientSync(
            address, http_client=http, interceptors=calls, timeout_ms=timeout_ms
        )
        self.viewers = ViewerServiceClientSync(address, http_client=http, interceptors=calls, timeout_ms=timeout_ms)
        self.admin = AdminServiceClientSync(address, http_client=http, interceptors=calls, timeout_ms=timeout_ms)

    def close(self) -> None:
        """Close the connections."""
        self._transport.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close()


class AsyncClient:
    """Calls the service from asyncio. Its attributes are those of `Client`; their methods are coroutines."""

    def __init__(
        self, url: str, token: AsyncToken, *, timeout_ms: int = _TIMEOUT_MS, ca_file: str | None = None
    ) -> None:
        """Make a client, as `Client` does. The function that gives the token may be a coroutine."""
        transport = HTTPTransport(
            tls_include_system_certs=ca_file is None,
            tls_ca_cert=_read(ca_file),
            connect_timeout=_CONNECT_TIMEOUT_S,
            follow_redirects=False,
        )
        self._transport = transport
        address, http, calls = _address(url), HttpClient(transport), [AsyncCalls(token)]
        self.user_groups = UserGroupServiceClient(address, http_client=http, interceptors=calls, timeout_ms=timeout_ms)
        self.viewers = ViewerServiceClient(address, http_client=http, interceptors=calls, timeout_ms=timeout_ms)
        self.admin = AdminServiceClient(address, http_client=http, interceptors=calls, timeout_ms=timeout_ms)

    async def aclose(self) -> None:
        """Close the connections."""
        await self._transport.aclose()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        await self.aclose()


def _address(url: str) -> str:
    if not url.startswith(("http://", "https://")):
        raise ValueError(f"url: it begins with http:// or https://, not as {url!r} does")
    return url.rstrip("/")


def _read(path: str | None) -> bytes | None:
    if path is None:
        return None
    with open(path, "rb") as file:
        return file.read()
