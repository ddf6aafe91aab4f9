"""Until the standard input ends, sends calls that are safe to repeat. Prints "ok" or an error for each call.

Arguments: the URL of the service, and the time limit of a call in milliseconds. Variable: API_TOKEN, the API token.
"""

import os
import sys
import threading

from user_group_service import (
    Client,
    ConnectError,
    CreateViewerSessionRequest,
    GetUserGroupRequest,
    RotateUserGroupTokenRequest,
    by_id,
)

LOOPS = 12
client = Client(sys.argv[1], os.environ["API_TOKEN"], timeout_ms=int(sys.argv[2]))
ended = threading.Event()


def calls(user_group_id):
    while not ended.is_set():
        group = by_id(user_group_id)
        for call in (
            lambda: client.user_groups.get_user_group(GetUserGroupRequest(user_group_id=user_group_id)),
            lambda: client.user_groups.rotate_user_group_token(RotateUserGroupTokenRequest(group=group)),
            lambda: client.viewers.create_viewer_session(CreateViewerSessionRequest(group=group, audience="a")),
        ):
            try:
                call()
                says = "ok"
            except ConnectError as error:
                says = f"{error.code} {error}".replace("\n", " ")
            sys.stdout.write(f"{says}\n")
            sys.stdout.flush()


threads = [threading.Thread(target=calls, args=(f"steady-{n}",)) for n in range(LOOPS)]
for thread in threads:
    thread.start()
sys.stdin.read()
ended.set()
for thread in threads:
    thread.join()
client.close()
