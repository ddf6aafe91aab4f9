"""Reads the details of errors that the service returned."""

from __future__ import annotations

import re
from datetime import timedelta
from typing import TypeVar

from connectrpc.client import ResponseMetadata
from connectrpc.errors import ConnectError
from protobuf import Message

from .gen.google.rpc.error_details_pb import BadRequest, ErrorInfo, RetryInfo

# The domain of `ErrorInfo` in all errors of the service. An error of a proxy has another domain, or no `ErrorInfo`.
_DOMAIN = "user-group-service"

_REQUEST_ID = "_user_group_service_request_id"

T = TypeVar("T", bound=Message)


def reason_of(error: BaseException | None) -> str | None:
    """Return the reason of an error, such as `USER_GROUP_NOT_FOUND`. docs/api.md lists the reasons.

    Return None if the error does not come from the service, for example because the connection was refused.
    """
    info = info_of(error)
    return info.reason if info else None


def violations_of(error: BaseException | None) -> dict[str, str]:
    """Return the invalid fields of the request that failed with this error.

    Each key is a field name of the proto files, and each value describes the violation. The mapping is empty if the
    error names no field.
    """
    details = _detail_of(error, BadRequest)
    return {each.field: each.description for each in details.field_violations} if details else {}


def suspension_message_of(error: BaseException | None) -> str | None:
    """If a call failed because the user group is suspended, return the message for the page. The message can be empty.

    Return None if the call failed for another reason.
    """
    info = info_of(error)
    if not info or info.reason != "USER_GROUP_SUSPENDED":
        return None
    return info.metadata.get("suspension_message", "")


def request_id_of(error: BaseException | None) -> str | None:
    """Return the request id of a failed call. The log of the service contains this id.

    Return None if the error does not come from a call.
    """
    found = getattr(error, _REQUEST_ID, None)
    return found if isinstance(found, str) else None


def note_request_id(error: ConnectError, request_id: str) -> None:
    if request_id_of(error) is None:
        setattr(error, _REQUEST_ID, request_id)
        error.add_note(f"request id: {request_id}")


def info_of(error: BaseException | None) -> ErrorInfo | None:
    """Return the `google.rpc.ErrorInfo` in an error. Return None if the service did not return the error."""
    info = _detail_of(error, ErrorInfo)
    return info if info and info.domain == _DOMAIN else None


def retry_after_of(error: ConnectError, answer: ResponseMetadata) -> timedelta | None:
    """Return the pause that the service requests. Return None if the service requests no pause."""
    info = _detail_of(error, RetryInfo)
    if info and info.retry_delay:
        return info.retry_delay.to_timedelta()
    # The header can also be a date (RFC 9110, 10.2.3), but the service sends seconds.
    seconds = answer.headers.get("retry-after") or answer.trailers.get("retry-after") or ""
    return timedelta(seconds=int(seconds)) if re.fullmatch("[0-9]{1,9}", seconds) else None


def _detail_of(error: BaseException | None, kind: type[T]) -> T | None:
    if not isinstance(error, ConnectError):
        return None
    for detail in error.details:
        # If this program, and not the service, created the detail, `value` can return another type.
        if isinstance(found := detail.value(kind), kind):
            return found
    return None
