"""A WSGI application that creates its client before the server forks.

If CALLS_BEFORE_FORK is set, the application also sends calls and reads keys before the fork.
"""

import os
import threading

from user_group_service import (
    Client,
    CreateViewerSessionRequest,
    GetUserGroupRequest,
    by_id,
    verify_viewer_session,
)

ISSUER = os.environ["ISSUER"]
client = Client(os.environ["URL"], lambda: os.environ["API_TOKEN"], timeout_ms=10_000)


def session():
    request = CreateViewerSessionRequest(group=by_id("acme"), audience="dashboards", viewer_id="bob")
    return client.viewers.create_viewer_session(request).session


def seen():
    return verify_viewer_session(session(), issuer=ISSUER, audience="dashboards").viewer_id


def call_for_ever():
    while True:
        seen()


if "CALLS_BEFORE_FORK" in os.environ:
    client.user_groups.get_user_group(GetUserGroupRequest(user_group_id="acme"))
    seen()
    # Keep a call in flight when the server forks.
    threading.Thread(target=call_for_ever, daemon=True).start()


def application(environ, start_response):
    start_response("200 OK", [("content-type", "text/plain")])
    return [seen().encode()]
