"""Client of the User Group Service, which manages user groups, and creates and verifies viewer sessions."""

from connectrpc.code import Code
from connectrpc.errors import ConnectError
from protobuf import Oneof
from protobuf.wkt import Duration, FieldMask, Struct, Timestamp

from ._session_rules import InvalidViewerSession
from .client import AsyncClient, Client
from .errors import info_of, reason_of, request_id_of, suspension_message_of, violations_of
from .events import async_watch_events, watch_events
from .gen.usergroup.v1.user_group_pb import ApiEnvironmentTag, UserGroup
from .gen.usergroup.v1.user_group_service_pb import (
    GetUserGroupRequest,
    GetUserGroupResponse,
    RotateUserGroupTokenRequest,
    RotateUserGroupTokenResponse,
    UpdateUserGroupRequest,
    UpdateUserGroupResponse,
)
from .gen.usergroup.v1.viewer_service_pb import (
    CreateViewerSessionRequest,
    CreateViewerSessionResponse,
    ResolveViewerRequest,
    ResolveViewerResponse,
)
from .messages import async_pages, by_current_token, by_id, by_token, pages
from .sessions import KeysUnavailable, ViewerSession, verify_viewer_session

__all__ = [
    "ApiEnvironmentTag",
    "AsyncClient",
    "Client",
    "Code",
    "ConnectError",
    "CreateViewerSessionRequest",
    "CreateViewerSessionResponse",
    "Duration",
    "FieldMask",
    "GetUserGroupRequest",
    "GetUserGroupResponse",
    "InvalidViewerSession",
    "KeysUnavailable",
    "Oneof",
    "ResolveViewerRequest",
    "ResolveViewerResponse",
    "RotateUserGroupTokenRequest",
    "RotateUserGroupTokenResponse",
    "Struct",
    "Timestamp",
    "UpdateUserGroupRequest",
    "UpdateUserGroupResponse",
    "UserGroup",
    "ViewerSession",
    "async_pages",
    "async_watch_events",
    "by_current_token",
    "by_id",
    "by_token",
    "info_of",
    "pages",
    "reason_of",
    "request_id_of",
    "suspension_message_of",
    "verify_viewer_session",
    "violations_of",
    "watch_events",
]
