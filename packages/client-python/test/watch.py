"""Prints the types and groups of the events of an environment, and a line for each response without content.

Argument: the URL of the service. API_TOKEN is the token.
"""

import os
import sys

from user_group_service import Client, ConnectError, reason_of, watch_events
from user_group_service.gen.usergroup.admin.v1.admin_service_pb import WatchEventsRequest
from user_group_service.gen.usergroup.admin.v1.event_pb import Event

with Client(sys.argv[1], os.environ["API_TOKEN"]) as client:
    try:
        for response in watch_events(client, WatchEventsRequest(start=WatchEventsRequest.Start.NOW)):
            content = response.content
            if content is not None and isinstance(content.value, Event):
                print("event", content.value.type, content.value.user_group_id, flush=True)
            else:
                print("cursor", flush=True)
    except ConnectError as error:
        print("error", reason_of(error), flush=True)
