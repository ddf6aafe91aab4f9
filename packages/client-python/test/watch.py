"""Prints the type and the group of each event of an environment, and a line for each response without content.

Arguments: the URL of the service, and `sync` or `async` for the client. Variable: API_TOKEN, the API token.
"""

import asyncio
import os
import sys

from user_group_service import AsyncClient, Client, ConnectError, async_watch_events, reason_of, watch_events
from user_group_service.gen.usergroup.admin.v1.admin_service_pb import WatchEventsRequest
from user_group_service.gen.usergroup.admin.v1.event_pb import Event

url, token = sys.argv[1], os.environ["API_TOKEN"]
request = WatchEventsRequest(start=WatchEventsRequest.Start.NOW)


def show(response):
    content = response.content
    if content is not None and isinstance(content.value, Event):
        print("event", content.value.type, content.value.user_group_id, flush=True)
    else:
        print("cursor", flush=True)


def watch():
    with Client(url, token) as client:
        for response in watch_events(client, request):
            show(response)


async def watch_async():
    async with AsyncClient(url, token) as client:
        async for response in async_watch_events(client, request):
            show(response)


try:
    if sys.argv[2] == "async":
        asyncio.run(watch_async())
    else:
        watch()
except ConnectError as error:
    print("error", reason_of(error), flush=True)
