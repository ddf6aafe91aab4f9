import asyncio
import gzip
import socket
import threading
import time
import tracemalloc
import unittest
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from unittest import mock

from fake import Answers, Reset, error, ok
from user_group_service import (
    AsyncClient,
    Client,
    Code,
    ConnectError,
    GetUserGroupRequest,
    GetUserGroupResponse,
    Oneof,
    RotateUserGroupTokenRequest,
    RotateUserGroupTokenResponse,
    UpdateUserGroupRequest,
    UpdateUserGroupResponse,
    _calls,
    async_pages,
    pages,
    reason_of,
    suspension_message_of,
    request_id_of,
    violations_of,
)
from user_group_service._retry import pause_after
from user_group_service.errors import info_of
from user_group_service.gen.usergroup.admin.v1.admin_service_pb import (
    ListUserGroupsRequest,
    ListUserGroupsResponse,
    RevokeUserGroupTokensRequest,
    RevokeUserGroupTokensResponse,
)
from user_group_service.gen.usergroup.admin.v1.user_group_pb import UserGroupInfo
from user_group_service.gen.google.rpc.error_details_pb import BadRequest, ErrorInfo

GROUP = GetUserGroupRequest(user_group_id="acme")
UPDATE = UpdateUserGroupRequest(user_group_id="acme", name="Acme")
ROTATE = RotateUserGroupTokenRequest(group=Oneof("user_group_id", "acme"))


def info(reason, domain="user-group-service", **metadata):
    return ErrorInfo(reason=reason, domain=domain, metadata=metadata)


UNKNOWN = error(503, "unavailable", info("STORE_UNAVAILABLE", outcome="unknown"))
NOT_MADE = error(503, "unavailable", info("STORE_UNAVAILABLE", outcome="not_made"))
OVERLOADED = error(429, "resource_exhausted", info("OVERLOADED"), headers={"retry-after": "0"})
FULL = error(429, "resource_exhausted", info("ENVIRONMENT_FULL"))
PROXY = error(503, "unavailable")
BROKEN = None
# RESET resets the connection before the response. CUT ends the connection within the response.
RESET = Reset
CUT = 200, {"content-type": "application/proto", "content-length": "100"}, b"\x08"
OF_GET, OF_UPDATE, OF_ROTATE = ok(GetUserGroupResponse(new_user_group=True)), ok(UpdateUserGroupResponse()), ok(RotateUserGroupTokenResponse())


def method_of(client, name):
    return getattr(client.user_groups if hasattr(client.user_groups, name) else client.admin, name)


class Retries(unittest.TestCase):
    """Most tests use both `Client` and `AsyncClient`."""

    def tried(self, method, request, *answers, token="t0ken-of-the-tests", **options):
        """Makes a call with each client. Returns the request headers, the request bodies and the error of `Client`."""
        all_asked = []
        for call in (self.by_client, self.by_async_client):
            failed = None
            with Answers(*answers) as server:
                try:
                    call(server.url, token, options, method, request)
                except ConnectError as caught:
                    failed = caught
            all_asked.append(([dict(headers) for headers, _ in server.requests], [body for _, body in server.requests], failed))
        (headers, bodies, failed), (more, _, failed_too) = all_asked
        self.assertEqual(failed and failed.code, failed_too and failed_too.code)
        if "timeout_ms" not in options:
            self.assertEqual(len(headers), len(more))
        return headers, bodies, failed

    def by_client(self, url, token, options, method, request):
        with Client(url, token, **options) as client:
            return method_of(client, method)(request)

    def by_async_client(self, url, token, options, method, request):
        async def call():
            async with AsyncClient(url, token, **options) as client:
                return await method_of(client, method)(request)

        return asyncio.run(call())

    def times(self, method, request, *answers):
        headers, _, failed = self.tried(method, request, *answers)
        return len(headers), failed and failed.code

    def test_repeats_safe_calls_until_their_deadline(self):
        answers = (UNKNOWN, PROXY, BROKEN, RESET, CUT, UNKNOWN, OF_GET)
        with mock.patch("random.random", return_value=-0.9):
            self.assertEqual(self.times("get_user_group", GROUP, *answers), (7, None))
        # The pauses are 0.25, 0.5 and 1 s, so no attempt begins shortly before the deadline.
        with mock.patch("random.random", return_value=1):
            headers, _, failed = self.tried("get_user_group", GROUP, UNKNOWN, timeout_ms=1500)
        self.assertEqual((failed.code, reason_of(failed)), (Code.UNAVAILABLE, "STORE_UNAVAILABLE"))
        self.assertGreaterEqual(len(headers), 2)

    def test_does_not_repeat_a_change_with_unknown_outcome(self):
        for answer in (UNKNOWN, PROXY, BROKEN, RESET, CUT, error(503, "unavailable", info("UNAVAILABLE"))):
            self.assertEqual(self.times("update_user_group", UPDATE, answer, OF_UPDATE), (1, Code.UNAVAILABLE))

    def test_repeats_a_change_that_was_not_made(self):
        self.assertEqual(self.times("update_user_group", UPDATE, NOT_MADE, OVERLOADED, OF_UPDATE), (3, None))

    def test_reports_a_change_that_an_earlier_attempt_may_have_made(self):
        for answers, outcome in (
            ((UNKNOWN, NOT_MADE), "unknown"),
            ((UNKNOWN, OVERLOADED), "unknown"),
            ((BROKEN, NOT_MADE), None),
            ((OVERLOADED, NOT_MADE), "not_made"),
        ):
            with mock.patch("random.random", return_value=1):
                headers, _, failed = self.tried("get_user_group", GROUP, *answers, timeout_ms=1500)
            self.assertGreaterEqual(len(headers), 2)
            found = info_of(failed)
            self.assertEqual(found and found.metadata.get("outcome"), outcome)

    def test_reports_a_lasting_limit_even_if_an_earlier_attempt_may_have_made_the_change(self):
        self.assertEqual(self.times("get_user_group", GROUP, UNKNOWN, FULL), (2, Code.RESOURCE_EXHAUSTED))

    def test_ignores_the_outcome_of_another_domain(self):
        told = error(503, "unavailable", info("X", "a-proxy", outcome="not_made"))
        self.assertEqual(self.times("update_user_group", UPDATE, told, OF_UPDATE), (1, Code.UNAVAILABLE))

    def test_does_not_repeat_resource_exhausted_without_retry_after(self):
        self.assertEqual(self.times("get_user_group", GROUP, FULL, OF_GET), (1, Code.RESOURCE_EXHAUSTED))
        for when in ("Fri, 31 Dec 1999 23:59:59 GMT", "9" * 20, "-1"):
            refused = error(429, "resource_exhausted", headers={"retry-after": when})
            self.assertEqual(self.times("get_user_group", GROUP, refused, OF_GET), (1, Code.RESOURCE_EXHAUSTED))

    def test_does_not_repeat_after_other_errors(self):
        for code in ("not_found", "aborted", "internal", "deadline_exceeded"):
            self.assertEqual(self.times("get_user_group", GROUP, error(500, code), OF_GET)[0], 1)

    def test_repeats_rotations_and_revocations_with_one_request_id_and_does_not_change_the_request(self):
        revoke = RevokeUserGroupTokensRequest(user_group_id="acme")
        for method, message, success in (
            ("rotate_user_group_token", ROTATE, OF_ROTATE),
            ("revoke_user_group_tokens", revoke, ok(RevokeUserGroupTokensResponse())),
        ):
            with self.subTest(method):
                _, bodies, failed = self.tried(method, message, UNKNOWN, BROKEN, success)
                self.assertIsNone(failed)
                ids = {type(message).from_binary(gzip.decompress(body)).request_id for body in bodies}
                self.assertEqual((len(bodies), len(ids)), (3, 1))
                self.assertRegex(ids.pop(), r"^[\x21-\x7e]{36}$")
                self.assertEqual(message.request_id, "")

    def test_repeats_calls_that_were_not_sent(self):
        with socket.create_server(("127.0.0.1", 0)) as closed:
            url = f"http://127.0.0.1:{closed.getsockname()[1]}"
        with Client(url, "t0ken-of-the-tests", timeout_ms=700) as client:
            with self.assertRaisesRegex(ConnectError, f"{url} cannot be reached") as failed:
                client.user_groups.update_user_group(UPDATE)
        self.assertEqual(failed.exception.code, Code.UNAVAILABLE)
        with ExitStack() as servers, Client(url, "t0ken-of-the-tests") as client:
            port = int(url.rpartition(":")[2])
            start = mock.Mock(side_effect=lambda _: servers.enter_context(Answers(OF_UPDATE, port=port)))
            with mock.patch.object(_calls.time, "sleep", start):
                client.user_groups.update_user_group(UPDATE)
        self.assertEqual(start.call_count, 1)

    def test_sends_the_remaining_time_and_the_current_token_with_each_attempt(self):
        tokens = iter(f"t0ken-of-the-tests-{n}" for n in range(10))
        headers, _, _ = self.tried("get_user_group", GROUP, UNKNOWN, UNKNOWN, OF_GET, token=lambda: next(tokens))
        left = [int(one["connect-timeout-ms"]) for one in headers]
        self.assertEqual(left, sorted(left, reverse=True))
        self.assertLess(left[2], left[0])
        self.assertEqual([one["authorization"] for one in headers], [f"Token t0ken-of-the-tests-{n}" for n in range(3)])

    def test_does_not_repeat_a_call_if_the_pause_would_end_after_the_deadline(self):
        later = error(429, "resource_exhausted", info("RATE_LIMITED"), headers={"retry-after": "60"})
        began = time.monotonic()
        self.assertEqual(self.times("get_user_group", GROUP, later, OF_GET), (1, Code.RESOURCE_EXHAUSTED))
        self.assertLess(time.monotonic() - began, 10)

    def test_pauses_grow_to_a_maximum_and_are_half_random(self):
        failed = ConnectError(Code.UNAVAILABLE, "so")

        def pause(tries, left=60):
            return pause_after(failed, mock.Mock(), tries=tries, may_repeat=True, left=left)

        with mock.patch("random.random", return_value=1.0):
            self.assertEqual([pause(n) for n in (1, 2, 3, 4, 5, 5000)], [0.25, 0.5, 1, 2, 2, 2])
        with mock.patch("random.random", return_value=0.0):
            self.assertEqual([pause(1), pause(1, left=0.125)], [0.125, None])

    def test_does_not_follow_redirects(self):
        with Answers(OF_GET) as other:
            elsewhere = (307, {"location": f"{other.url}/"}, b"")
            _, _, failed = self.tried("get_user_group", GROUP, elsewhere)
        self.assertIsNotNone(failed)
        self.assertEqual(other.requests, [])

    def test_accepts_a_coroutine_function_as_token(self):
        async def token():
            return "t0ken-of-the-tests"

        with Answers(OF_GET) as server:
            self.by_async_client(server.url, token, {}, "get_user_group", GROUP)
        self.assertEqual(server.requests[0][0]["authorization"], "Token t0ken-of-the-tests")


    def test_ends_a_call_at_its_deadline_if_the_response_is_slow(self):
        def drip(handler):
            handler.wfile.write(b"HTTP/1.1 200 OK\r\ncontent-type: application/proto\r\n")
            while True:
                handler.wfile.write(b"x: y\r\n")
                time.sleep(0.005)

        began = time.monotonic()
        _, _, failed = self.tried("get_user_group", GROUP, drip, timeout_ms=500)
        self.assertEqual(failed.code, Code.DEADLINE_EXCEEDED)
        self.assertLess(time.monotonic() - began, 5)

    def test_limits_the_size_of_a_response(self):
        small = mock.patch("user_group_service._http.MAX_ANSWER_BYTES", 1000)
        bomb = gzip.compress(b"\0" * 100_000_000)
        for headers, body in (({}, b"\0" * 1001), ({"content-encoding": "gzip"}, bomb)):
            answer = 200, {"content-type": "application/proto", **headers}, body
            with small:
                tracemalloc.start()
                _, _, failed = self.tried("get_user_group", GROUP, answer)
                _, peak = tracemalloc.get_traced_memory()
                tracemalloc.stop()
            self.assertEqual(failed.code, Code.RESOURCE_EXHAUSTED)
            self.assertRegex(failed.message, "more than 1000 bytes")
            self.assertLess(peak, 10_000_000)
        packed = gzip.compress(OF_GET[2])
        cut = 200, {"content-type": "application/proto", "content-encoding": "gzip"}, packed[:-4]
        whole = 200, {"content-type": "application/proto", "content-encoding": "gzip"}, packed
        self.assertEqual(self.times("get_user_group", GROUP, cut, whole), (2, None))

    def test_ends_a_call_at_its_deadline_if_the_token_function_hangs(self):
        ended = threading.Event()
        self.addCleanup(ended.set)

        async def hangs():
            await asyncio.sleep(3600)

        for clients, token in ((self.by_client, ended.wait), (self.by_async_client, ended.wait), (self.by_async_client, hangs)):
            with self.subTest(token=token), self.assertRaisesRegex(ConnectError, "returns the API token") as failed:
                clients("http://127.0.0.1:1", token, {"timeout_ms": 50}, "get_user_group", GROUP)
            self.assertEqual(failed.exception.code, Code.DEADLINE_EXCEEDED)

    def test_raises_the_error_of_the_token_function(self):
        def fails():
            raise TimeoutError("of its own")

        for call in (self.by_client, self.by_async_client):
            with self.assertRaisesRegex(TimeoutError, "of its own"):
                call("http://127.0.0.1:1", fails, {}, "get_user_group", GROUP)

    def test_raises_the_errors_of_asyncio_for_cancelled_and_timed_out_calls(self):
        async def call(how):
            async with AsyncClient(server.url, "t0ken-of-the-tests") as client:
                return await how(client.user_groups.get_user_group(GROUP))

        async def cancelled(awaitable):
            task = asyncio.ensure_future(awaitable)
            await asyncio.to_thread(asked.wait)
            task.cancel()
            await task

        async def given_up(awaitable):
            async with asyncio.timeout(0.05):
                await awaitable

        asked, ended = threading.Event(), threading.Event()
        self.addCleanup(ended.set)

        def hang(handler):
            asked.set()
            ended.wait()

        with Answers(hang) as server:
            for how, kind in ((cancelled, asyncio.CancelledError), (given_up, TimeoutError)):
                with self.assertRaises(kind):
                    asyncio.run(call(how))
            ended.set()

    def test_adds_the_request_id_to_errors(self):
        headers, _, failed = self.tried("get_user_group", GROUP, error(404, "not_found"))
        self.assertEqual(request_id_of(failed), headers[0]["x-request-id"])
        taken = error(404, "not_found", headers={"x-request-id": "of-the-service"})
        _, _, failed = self.tried("get_user_group", GROUP, taken)
        self.assertEqual(request_id_of(failed), "of-the-service")
        self.assertIn("request id: of-the-service", failed.__notes__)
        self.assertIsNone(request_id_of(ValueError("so")))

    def test_calls_interceptors_for_each_attempt(self):
        seen = []

        class Sees:
            def intercept_unary_sync(self, call_next, request, ctx):
                seen.append((ctx.method.name, ctx.request_headers["authorization"]))
                return call_next(request, ctx)

        with Answers(UNKNOWN, OF_GET) as server:
            self.by_client(server.url, "t0ken-of-the-tests", {"interceptors": [Sees()]}, "get_user_group", GROUP)
        self.assertEqual(seen, [("GetUserGroup", "Token t0ken-of-the-tests")] * 2)

    def test_limits_the_number_of_connections(self):
        async def by_async_client(url):
            async with AsyncClient(url, "t0ken-of-the-tests") as client:
                await asyncio.gather(*(client.user_groups.get_user_group(GROUP) for _ in range(30)))

        def by_client(url):
            with Client(url, "t0ken-of-the-tests") as client, ThreadPoolExecutor(10) as threads:
                list(threads.map(lambda _: client.user_groups.get_user_group(GROUP), range(30)))

        for make in (by_client, lambda url: asyncio.run(by_async_client(url))):
            with Answers(OF_GET) as server, mock.patch("user_group_service._http._MAX_CONNECTIONS", 3):
                make(server.url)
            self.assertEqual(len(server.requests), 30)
            self.assertLessEqual(len(server.peers), 3)

    def test_reads_pages_one_by_one(self):
        first = ok(ListUserGroupsResponse(user_groups=[UserGroupInfo(provided_id="a")], next_page_token="p"))
        last = ok(ListUserGroupsResponse(user_groups=[UserGroupInfo(provided_id="b")]))
        request = ListUserGroupsRequest(page_size=1)

        async def by_async_client(url):
            async with AsyncClient(url, "t0ken-of-the-tests") as client:
                return [page async for page in async_pages(client.admin.list_user_groups, request)]

        def by_client(url):
            with Client(url, "t0ken-of-the-tests") as client:
                return list(pages(client.admin.list_user_groups, request))

        for read in (by_client, lambda url: asyncio.run(by_async_client(url))):
            with Answers(first, last) as server:
                found = [group.provided_id for page in read(server.url) for group in page.user_groups]
            self.assertEqual(found, ["a", "b"])
            asked = [ListUserGroupsRequest.from_binary(gzip.decompress(body)) for _, body in server.requests]
            self.assertEqual([(one.page_size, one.page_token) for one in asked], [(1, ""), (1, "p")])
        self.assertEqual(request.page_token, "")

    def test_uses_the_proxy_of_the_environment_or_the_option(self):
        with Answers(OF_GET) as proxy:
            self.by_client("http://groups.example", "t0ken-of-the-tests", {"proxy": proxy.url}, "get_user_group", GROUP)
            named = {"http_proxy": proxy.url.replace("//", "//me:se%20cret@"), "no_proxy": "127.0.0.1"}
            with mock.patch.dict("os.environ", named):
                self.by_async_client("http://groups.example", "t0ken-of-the-tests", {}, "get_user_group", GROUP)
                with Answers(OF_GET) as direct:
                    self.by_client(direct.url, "t0ken-of-the-tests", {}, "get_user_group", GROUP)
        self.assertEqual([len(proxy.requests), len(direct.requests)], [2, 1])
        self.assertEqual(proxy.requests[1][0]["proxy-authorization"], "Basic bWU6c2UgY3JldA==")


class Inputs(unittest.TestCase):
    def test_rejects_an_invalid_token_without_showing_it(self):
        for token, says in (("", "it is empty"), (" \n", "it is empty"), ("se cret", "invalid characters"), ("s€cret", "invalid characters")):
            for client in (Client, AsyncClient):
                with self.assertRaisesRegex(ValueError, says) as failed:
                    client("http://127.0.0.1:1", token)
                self.assertNotIn("cret", str(failed.exception))
        with self.assertRaisesRegex(TypeError, "a function that returns it"):
            Client("http://127.0.0.1:1", None)

    def test_strips_a_line_break_after_the_token(self):
        with Answers(OF_GET) as server, Client(f"{server.url}/", "t0ken-of-the-tests\n") as client:
            self.assertTrue(client.user_groups.get_user_group(GROUP).new_user_group)
        self.assertEqual(server.requests[0][0]["authorization"], "Token t0ken-of-the-tests")

    def test_rejects_an_invalid_url(self):
        for client in (Client, AsyncClient):
            for url in ("groups.example.com", "ftp://groups.example.com", "https://"):
                with self.assertRaisesRegex(ValueError, "begin with http:// or https://"):
                    client(url, "t0ken-of-the-tests")
            for url in ("https://me:secret@groups.example.com", "https://groups.example.com/?a=b", "https://groups.example.com/#a"):
                with self.assertRaisesRegex(ValueError, "no password, query or fragment") as failed:
                    client(url, "t0ken-of-the-tests")
                self.assertNotIn("secret", str(failed.exception))
            for time_ms in (0, -1):
                with self.assertRaisesRegex(ValueError, "timeout_ms"):
                    client("https://groups.example.com", "t0ken-of-the-tests", timeout_ms=time_ms)
            with self.assertRaises(FileNotFoundError):
                client("https://groups.example.com", "t0ken-of-the-tests", ca_file="/absent.pem")


class Errors(unittest.TestCase):
    def test_reads_reasons_and_violations(self):
        violation = BadRequest.FieldViolation(field="name", description="is long")
        failed = ConnectError(
            Code.INVALID_ARGUMENT, "so", [info("VALIDATION_FAILED"), BadRequest(field_violations=[violation])]
        )
        self.assertEqual((reason_of(failed), violations_of(failed)), ("VALIDATION_FAILED", {"name": "is long"}))

    def test_reads_the_message_of_a_suspension(self):
        for metadata, message in (({"suspension_message": "Call us."}, "Call us."), ({}, "")):
            details = [ErrorInfo(reason="USER_GROUP_SUSPENDED", domain="user-group-service", metadata=metadata)]
            failed = ConnectError(Code.FAILED_PRECONDITION, "so", details)
            self.assertEqual(suspension_message_of(failed), message)
        for failed in (None, ConnectError(Code.NOT_FOUND, "so", [info("TOKEN_NOT_FOUND")])):
            self.assertIsNone(suspension_message_of(failed))

    def test_errors_of_other_domains_have_no_reason(self):
        for failed in (None, ValueError("so"), ConnectError(Code.INTERNAL, "so"), ConnectError(Code.INTERNAL, "so", [info("X", "a-proxy")])):
            self.assertEqual((reason_of(failed), violations_of(failed)), (None, {}))


if __name__ == "__main__":
    unittest.main()
