"""Calls the service with the client of openapi-generator."""

import json
import os

from openapi_client import ApiClient, Configuration, RESTApi, UserGroupServiceApi, ViewerServiceApi
from openapi_client.exceptions import NotFoundException
from openapi_client.models import (
    UsergroupV1CreateViewerSessionRequest,
    UsergroupV1GetUserGroupRequest,
    UsergroupV1ResolveViewerRequest,
)

user_group_id = os.environ["USER_GROUP_ID"]
with ApiClient(Configuration(host=os.environ["URL"], access_token=os.environ["API_TOKEN"])) as client:
    viewers = ViewerServiceApi(client)
    properties = {"plan": "gold", "seats": [1, None]}
    request = UsergroupV1GetUserGroupRequest(user_group_id=user_group_id, properties=properties)
    group = UserGroupServiceApi(client).user_group_service_get_user_group(request).user_group
    rest = RESTApi(client).get_user(user_group_id)
    request = UsergroupV1CreateViewerSessionRequest(
        user_group_id=user_group_id, audience="https://dashboards.example.com"
    )
    session = viewers.viewer_service_create_viewer_session(request).session
    resolved = viewers.viewer_service_resolve_viewer(UsergroupV1ResolveViewerRequest(token=session))
    try:
        viewers.viewer_service_resolve_viewer(UsergroupV1ResolveViewerRequest(token="no-such-token"))
        code = None
    except NotFoundException as error:
        code = error.data.code

print(
    json.dumps(
        {
            "token": group.token,
            "properties": group.properties,
            "restToken": rest.user_group.token,
            "teamId": rest.user_group.team_id,
            "session": session,
            "providedId": resolved.provided_id,
            "code": code,
        }
    )
)
