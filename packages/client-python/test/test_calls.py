"""Which calls are tried again, with what, and how errors are read."""

import asyncio
import gzip
import socket
import time
import unittest
from unittest import mock

from fake import Answers, error, ok
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
    reason_of,
    violations_of,
)
from user_group_service._retry import pause_after
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
OF_GET, OF_UPDATE, OF_ROTATE = ok(GetUserGroupResponse(new_user_group=True)), ok(UpdateUserGroupResponse()), ok(RotateUserGroupTokenResponse())


class Retries(unittest.TestCase):
    """Each by both clients."""

    def tried(self, method, request, *answers, token="t0ken-of-the-tests", **options):
        """What the server was asked by each client; the error of the call, if it failed."""
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
        self.assertEqual([len(headers), failed and failed.code], [len(more), failed_too and failed_too.code])
        return headers, bodies, failed

    def by_client(self, url, token, options, method, request):
        with Client(url, token, **options) as client:
            return getattr(client.user_groups, method)(request)

    def by_async_client(self, url, token, options, method, request):
        async def call():
            async with AsyncClient(url, token, **options) as client:
                return await getattr(client.user_groups, method)(request)

        return asyncio.run(call())

    def times(self, method, request, *answers):
        headers, _, failed = self.tried(method, request, *answers)
        return len(headers), failed and failed.code

    def test_what_reads_or_creates_is_tried_four_times(self):
        self.assertEqual(self.times("get_user_group", GROUP, UNKNOWN), (4, Code.UNAVAILABLE))
        self.assertEqual(self.times("get_user_group", GROUP, PROXY, BROKEN, UNKNOWN, OF_GET), (4, None))

    def test_a_change_whose_outcome_is_unknown_is_not_tried_again(self):
        for answer in (UNKNOWN, PROXY, BROKEN, error(503, "unavailable", info("UNAVAILABLE"))):
            self.assertEqual(self.times("update_user_group", UPDATE, answer, OF_UPDATE), (1, Code.UNAVAILABLE))

    def test_a_change_that_was_not_made_is_tried_again(self):
        self.assertEqual(self.times("update_user_group", UPDATE, NOT_MADE, OVERLOADED, OF_UPDATE), (3, None))

    def test_what_another_service_says_of_a_change_is_not_believed(self):
        told = error(503, "unavailable", info("X", "a-proxy", outcome="not_made"))
        self.assertEqual(self.times("update_user_group", UPDATE, told, OF_UPDATE), (1, Code.UNAVAILABLE))

    def test_a_refusal_without_a_time_to_wait_is_not_tried_again(self):
        self.assertEqual(self.times("get_user_group", GROUP, FULL, OF_GET), (1, Code.RESOURCE_EXHAUSTED))
        for when in ("Fri, 31 Dec 1999 23:59:59 GMT", "9" * 20, "-1"):
            refused = error(429, "resource_exhausted", headers={"retry-after": when})
            self.assertEqual(self.times("get_user_group", GROUP, refused, OF_GET), (1, Code.RESOURCE_EXHAUSTED))

    def test_other_errors_are_not_tried_again(self):
        for code in ("not_found", "aborted", "internal", "deadline_exceeded"):
            self.assertEqual(self.times("get_user_group", GROUP, error(500, code), OF_GET)[0], 1)

    def test_a_rotation_is_repeated_with_one_request_id_and_the_message_stays_as_it_is(self):
        _, bodies, failed = self.tried("rotate_user_group_token", ROTATE, UNKNOWN, BROKEN, OF_ROTATE)
        self.assertIsNone(failed)
        ids = {RotateUserGroupTokenRequest.from_binary(gzip.decompress(body)).request_id for body in bodies}
        self.assertEqual((len(bodies), len(ids)), (3, 1))
        self.assertRegex(ids.pop(), r"^[\x21-\x7e]{36}$")
        self.assertEqual(ROTATE.request_id, "")

    def test_what_was_never_sent_is_tried_again(self):
        with socket.create_server(("127.0.0.1", 0)) as closed:
            url = f"http://127.0.0.1:{closed.getsockname()[1]}"
        with mock.patch("time.sleep") as slept, Client(url, "t0ken-of-the-tests") as client:
            with self.assertRaises(ConnectError) as failed:
                client.user_groups.update_user_group(UPDATE)
        self.assertEqual((failed.exception.code, slept.call_count), (Code.UNAVAILABLE, 3))

    def test_each_try_says_how_much_time_is_left_and_presents_the_token_of_now(self):
        tokens = iter(f"t0ken-of-the-tests-{n}" for n in range(10))
        headers, _, _ = self.tried("get_user_group", GROUP, UNKNOWN, UNKNOWN, OF_GET, token=lambda: next(tokens))
        left = [int(one["connect-timeout-ms"]) for one in headers]
        self.assertEqual(left, sorted(left, reverse=True))
        self.assertLess(left[2], left[0])
        self.assertEqual([one["authorization"] for one in headers], [f"Token t0ken-of-the-tests-{n}" for n in range(3)])

    def test_what_would_pass_the_deadline_is_not_waited_for(self):
        later = error(429, "resource_exhausted", info("RATE_LIMITED"), headers={"retry-after": "60"})
        began = time.monotonic()
        self.assertEqual(self.times("get_user_group", GROUP, later, OF_GET), (1, Code.RESOURCE_EXHAUSTED))
        self.assertLess(time.monotonic() - began, 10)

    def test_pauses_are_anything_up_to_a_bound_that_doubles(self):
        failed = ConnectError(Code.UNAVAILABLE, "so")
        with mock.patch("random.random", return_value=1.0):
            pauses = [pause_after(failed, mock.Mock(), tries=n, may_repeat=True, left=None) for n in (1, 2, 3, 4)]
        self.assertEqual(pauses, [0.2, 0.4, 0.8, None])
        with mock.patch("random.random", return_value=0.0):
            self.assertEqual(pause_after(failed, mock.Mock(), tries=3, may_repeat=True, left=0.1), 0)
            self.assertIsNone(pause_after(failed, mock.Mock(), tries=3, may_repeat=True, left=0))

    def test_a_redirect_is_not_followed(self):
        with Answers(OF_GET) as other:
            elsewhere = (307, {"location": f"{other.url}/"}, b"")
            _, _, failed = self.tried("get_user_group", GROUP, elsewhere)
        self.assertIsNotNone(failed)
        self.assertEqual(other.requests, [])

    def test_the_function_of_the_asynchronous_client_may_be_a_coroutine(self):
        async def token():
            return "t0ken-of-the-tests"

        with Answers(OF_GET) as server:
            self.by_async_client(server.url, token, {}, "get_user_group", GROUP)
        self.assertEqual(server.requests[0][0]["authorization"], "Token t0ken-of-the-tests")


class Inputs(unittest.TestCase):
    def test_a_token_that_can_be_none_is_refused_without_showing_it(self):
        for token, says in (("", "it is empty"), (" \n", "it is empty"), ("se cret", "copied whole"), ("s€cret", "copied whole")):
            for client in (Client, AsyncClient):
                with self.assertRaisesRegex(ValueError, says) as failed:
                    client("http://127.0.0.1:1", token)
                self.assertNotIn("cret", str(failed.exception))
        with self.assertRaisesRegex(TypeError, "a function that returns it"):
            Client("http://127.0.0.1:1", None)

    def test_a_line_break_behind_the_token_is_none_of_it(self):
        with Answers(OF_GET) as server, Client(f"{server.url}/", "t0ken-of-the-tests\n") as client:
            self.assertTrue(client.user_groups.get_user_group(GROUP).new_user_group)
        self.assertEqual(server.requests[0][0]["authorization"], "Token t0ken-of-the-tests")

    def test_a_url_without_a_scheme_is_refused(self):
        with self.assertRaisesRegex(ValueError, "begins with http:// or https://"):
            Client("groups.example.com", "t0ken-of-the-tests")


class Errors(unittest.TestCase):
    def test_reasons_and_violations_are_read(self):
        violation = BadRequest.FieldViolation(field="name", description="is long")
        failed = ConnectError(
            Code.INVALID_ARGUMENT, "so", [info("VALIDATION_FAILED"), BadRequest(field_violations=[violation])]
        )
        self.assertEqual((reason_of(failed), violations_of(failed)), ("VALIDATION_FAILED", {"name": "is long"}))

    def test_errors_of_others_have_none(self):
        for failed in (None, ValueError("so"), ConnectError(Code.INTERNAL, "so"), ConnectError(Code.INTERNAL, "so", [info("X", "a-proxy")])):
            self.assertEqual((reason_of(failed), violations_of(failed)), (None, {}))


if __name__ == "__main__":
    unittest.main()
