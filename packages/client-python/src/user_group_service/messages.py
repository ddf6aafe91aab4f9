"""Parts of messages that are long to write."""

from __future__ import annotations

from typing import Literal

from protobuf import Oneof


def by_id(user_group_id: str) -> Oneof[Literal["user_group_id"], str]:
    """The `group` of a request that names it by its id. By a token: `Oneof("token", ...)`, or `Oneof("current_token", ...)`."""
    return Oneof("user_group_id", user_group_id)
