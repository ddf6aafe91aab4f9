"""Calls the service with the client of openapi-python-client."""

import json
import os

from generated import AuthenticatedClient
from generated.api.rest import get_user
from generated.api.user_group_service import user_group_service_get_user_group
from generated.api.viewer_service import (
    viewer_service_create_viewer_session,
    viewer_service_resolve_viewer,
)
from generated.models import (
    UsergroupV1CreateViewerSessionRequest,
    UsergroupV1GetUserGroupRequest,
    UsergroupV1GetUserGroupRequestProperties,
    UsergroupV1ResolveViewerRequest,
)

client = AuthenticatedClient(base_url=os.environ["URL"], token=os.environ["API_TOKEN"])
user_group_id = os.environ["USER_GROUP_ID"]

properties = UsergroupV1GetUserGroupRequestProperties.from_dict({"plan": "gold", "seats": [1, None]})
request = UsergroupV1GetUserGroupRequest(user_group_id=user_group_id, properties=properties)
group = user_group_service_get_user_group.sync(client=client, body=request).user_group
rest = get_user.sync(client=client, user_group_id=user_group_id)
request = UsergroupV1CreateViewerSessionRequest(user_group_id=user_group_id, audience="https://dashboards.example.com")
session = viewer_service_create_viewer_session.sync(client=client, body=request).session
resolve = viewer_service_resolve_viewer.sync
resolved = resolve(client=client, body=UsergroupV1ResolveViewerRequest(token=session))
refused = resolve(client=client, body=UsergroupV1ResolveViewerRequest(token="no-such-token"))

print(
    json.dumps(
        {
            "token": group.token,
            "properties": group.properties.to_dict(),
            "restToken": rest.user_group.token,
            "teamId": rest.user_group.team_id,
            "session": session,
            "providedId": resolved.provided_id,
            "code": refused.code,
        }
    )
)
