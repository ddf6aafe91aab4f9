import asyncio
import gzip
import struct
import threading
import unittest
from contextlib import aclosing
from unittest import mock

from fake import Answers, error
from user_group_service import AsyncClient, Client, Code, ConnectError, async_watch_events, watch_events
from user_group_service.events import _Position
from user_group_service.gen.usergroup.admin.v1.admin_service_pb import WatchEventsRequest, WatchEventsResponse

REQUEST = WatchEventsRequest(start=WatchEventsRequest.Start.BEGINNING)
REFUSED = error(401, "unauthenticated")


def envelope(flags, body):
    return struct.pack(">BI", flags, len(body)) + body


def stream(*cursors, ended=None):
    """Return a response with cursors.

    If `ended` is given, the response stays open until the client closes the connection. Then `ended` is set.
    """

    def answer(handler):
        handler.wfile.write(b"HTTP/1.1 200 OK\r\ncontent-type: application/connect+proto\r\n\r\n")
        for cursor in cursors:
            handler.wfile.write(envelope(0, WatchEventsResponse(cursor=cursor).to_binary()))
        if ended is None:
            handler.wfile.write(envelope(2, b"{}"))
        else:
            handler.connection.recv(1)
            ended.set()

    return answer


def cursors_sent(server):
    # The first byte of an envelope is a flag for compression.
    bodies = [gzip.decompress(body[5:]) if body[0] else body[5:] for _, body in server.requests]
    return [WatchEventsRequest.from_binary(body).cursor for body in bodies]


class Events(unittest.TestCase):
    def test_continues_with_the_last_cursor(self):
        def watch(url, seen):
            with Client(url, "token") as client:
                seen.extend(response.cursor for response in watch_events(client, REQUEST))

        async def watch_async(url, seen):
            async with AsyncClient(url, "token") as client:
                async for response in async_watch_events(client, REQUEST):
                    seen.append(response.cursor)

        for run in watch, lambda *args: asyncio.run(watch_async(*args)):
            pauses = "user_group_service.events._Position.pause_after"
            pause = mock.patch(pauses, autospec=True, side_effect=_Position.pause_after)
            with Answers(stream("a", "b"), stream("c"), stream(), REFUSED) as server, pause as paused:
                seen = []
                with self.assertRaises(ConnectError) as raised:
                    run(server.url, seen)
                self.assertEqual(raised.exception.code, Code.UNAUTHENTICATED)
                self.assertEqual(seen, ["a", "b", "c"])
                self.assertEqual(cursors_sent(server), ["", "b", "c", "c"])
                # `pause_after` was called after the stream without a response, and after the permanent failure.
                self.assertEqual(paused.call_count, 2)
        self.assertEqual(REQUEST.cursor, "")

    def test_raises_the_timeout_of_its_task_and_closes_the_connection(self):
        async def run(url):
            async with AsyncClient(url, "token") as client:
                with self.assertRaises(TimeoutError):
                    async with asyncio.timeout(1):
                        async for response in async_watch_events(client, REQUEST):
                            self.assertEqual(response.cursor, "a")

        ended = threading.Event()
        with Answers(stream("a", ended=ended)) as server:
            asyncio.run(run(server.url))
            self.assertTrue(ended.wait(30))

    def test_closes_the_connection_when_the_iterator_is_closed(self):
        async def run(url):
            async with AsyncClient(url, "token") as client:
                async with aclosing(async_watch_events(client, REQUEST)) as responses:
                    async for _ in responses:
                        break
                await asyncio.to_thread(ended.wait, 30)

        ended = threading.Event()
        with Answers(stream("a", ended=ended)) as server:
            asyncio.run(run(server.url))
            self.assertTrue(ended.is_set())


if __name__ == "__main__":
    unittest.main()
