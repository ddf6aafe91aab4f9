"""What the errors of the service say beside their code and text."""

from __future__ import annotations

import re
from datetime import timedelta
from typing import TypeVar

from connectrpc.client import ResponseMetadata
from connectrpc.errors import ConnectError
from protobuf import Message

from .gen.google.rpc.error_details_pb import BadRequest, ErrorInfo, RetryInfo

# `ErrorInfo.domain` of the service's reasons; proxies send reasons of their own.
_DOMAIN = "user-group-service"

_REQUEST_ID = "_user_group_service_request_id"

T = TypeVar("T", bound=Message)


def reason_of(error: BaseException | None) -> str | None:
    """Why a call failed: a stable name, such as `USER_GROUP_NOT_FOUND`, of the table of errors in docs/api.md.

    None when the error is not one of the service, such as a connection that was refused.
    """
    info = info_of(error)
    return info.reason if info else None


def violations_of(error: BaseException | None) -> dict[str, str]:
    """The invalid fields of a request, by their names in the proto files, and what is wrong with each."""
    details = _detail_of(error, BadRequest)
    return {each.field: each.description for each in details.field_violations} if details else {}


def request_id_of(error: BaseException | None) -> str | None:
    """The id of the request that failed, by which the log of the service has it."""
    found = getattr(error, _REQUEST_ID, None)
    return found if isinstance(found, str) else None


def note_request_id(error: ConnectError, request_id: str) -> None:
    """Has an error say the id of its request."""
    if request_id_of(error) is None:
        setattr(error, _REQUEST_ID, request_id)
        error.add_note(f"request id: {request_id}")


def info_of(error: BaseException | None) -> ErrorInfo | None:
    """The service's `google.rpc.ErrorInfo` of an error; None when it has none."""
    info = _detail_of(error, ErrorInfo)
    return info if info and info.domain == _DOMAIN else None


def retry_after_of(error: ConnectError, answer: ResponseMetadata) -> timedelta | None:
    """How long the service asks to wait before another try; None when it does not ask for one."""
    info = _detail_of(error, RetryInfo)
    if info and info.retry_delay:
        return info.retry_delay.to_timedelta()
    # The service sends no date here, the other form of the header (RFC 9110, 10.2.3), nor a time of years.
    seconds = answer.headers.get("retry-after") or answer.trailers.get("retry-after") or ""
    return timedelta(seconds=int(seconds)) if re.fullmatch("[0-9]{1,9}", seconds) else None


def _detail_of(error: BaseException | None, kind: type[T]) -> T | None:
    if not isinstance(error, ConnectError):
        return None
    for detail in error.details:
        # A detail that was not received but given is what it is, whatever was asked for.
        if isinstance(found := detail.value(kind), kind):
            return found
    return None
