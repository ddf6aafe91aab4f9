"""Helpers for requests, and iterators over the pages of lists."""

from __future__ import annotations

import copy
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from typing import Literal, Protocol, TypeVar

from protobuf import Oneof


def by_id(user_group_id: str) -> Oneof[Literal["user_group_id"], str]:
    """Return a value for the field `group` of a request. The value identifies the group by its id."""
    return Oneof("user_group_id", user_group_id)


def by_token(token: str) -> Oneof[Literal["token"], str]:
    """Return a value for `group` of CreateViewerSessionRequest. The value identifies the group by its token."""
    return Oneof("token", token)


def by_current_token(token: str) -> Oneof[Literal["current_token"], str]:
    """Return a value for `group` of RotateUserGroupTokenRequest. It identifies the group by its current token."""
    return Oneof("current_token", token)


class _Listing(Protocol):
    page_token: str


class _Page(Protocol):
    next_page_token: str


REQ = TypeVar("REQ", bound=_Listing)
RES = TypeVar("RES", bound=_Page)


def pages(call: Callable[[REQ], RES], request: REQ) -> Iterator[RES]:
    """Iterate over the pages of a list: `pages(client.admin.list_user_groups, ListUserGroupsRequest())`."""
    request = copy.copy(request)
    while True:
        page = call(request)
        yield page
        if not page.next_page_token:
            return
        request.page_token = page.next_page_token


async def async_pages(call: Callable[[REQ], Awaitable[RES]], request: REQ) -> AsyncIterator[RES]:
    """Iterate over the pages of a list, like `pages`. `call` is a method of an `AsyncClient`."""
    request = copy.copy(request)
    while True:
        page = await call(request)
        yield page
        if not page.next_page_token:
            return
        request.page_token = page.next_page_token
