import base64
import json
import os
import threading
import time
import traceback
import unittest
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from unittest import mock

from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.asymmetric.utils import decode_dss_signature
from fake import Answers, error, published
from user_group_service import InvalidViewerSession, KeysUnavailable, sessions, verify_viewer_session

KEY = ec.generate_private_key(ec.SECP256R1())
OTHER_KEY = ec.generate_private_key(ec.SECP256R1())


def base64url(data):
    return base64.urlsafe_b64encode(data).decode().rstrip("=")


def jwk(key, kid):
    numbers = key.public_key().public_numbers()
    point = {name: base64url(value.to_bytes(32)) for name, value in (("x", numbers.x), ("y", numbers.y))}
    return {"kty": "EC", "crv": "P-256", **point, "kid": kid, "use": "sig", "alg": "ES256"}


PUBLISHED = published([jwk(KEY, "k1")])


class Sessions(unittest.TestCase):
    def setUp(self):
        self.issuer = self.enterContext(Answers(PUBLISHED))
        self.now = int(time.time())

    def claims(self, **changed):
        made = {"iss": self.issuer.url, "aud": "dashboards", "sub": "acme", "tid": 7, "gen": 0, "jti": "j1"}
        return {**made, "iat": self.now, "exp": self.now + 600, **changed}

    def session(self, key=KEY, kid="k1", **changed):
        parts = ({"alg": "ES256", "typ": "viewer+jwt", "kid": kid}, self.claims(**changed))
        text = ".".join(base64url(json.dumps(part).encode()) for part in parts)
        r, s = decode_dss_signature(key.sign(text.encode(), ec.ECDSA(hashes.SHA256())))
        return f"{text}.{base64url(r.to_bytes(32) + s.to_bytes(32))}"

    def verified(self, session, audience="dashboards"):
        return verify_viewer_session(session, issuer=self.issuer.url, audience=audience)

    def refused(self, session, says, **options):
        with self.assertRaisesRegex(InvalidViewerSession, says) as failed:
            self.verified(session, **options)
        if len(session) > 20:
            self.assertNotIn(session[-20:], str(failed.exception))

    def test_returns_the_claims_of_a_valid_session(self):
        found = self.verified(
            self.session(vid="bob", origin="https://a.example", properties={"plan": "gold"}, ext={"theme": "dark"})
        )
        self.assertEqual((found.user_group_id, found.team_id, found.viewer_id, found.id), ("acme", 7, "bob", "j1"))
        self.assertEqual((found.origin, found.properties, found.claims), ("https://a.example", {"plan": "gold"}, {"theme": "dark"}))
        self.assertEqual((found.expire_time - found.create_time).total_seconds(), 600)
        self.assertEqual(self.verified(self.session()).viewer_id, None)

    def test_accepts_or_rejects_each_case_of_viewer_sessions_json(self):
        suite = json.loads((Path(__file__).parents[3] / "test/fixtures/viewer-sessions.json").read_text())
        self.issuer.answers = [published(suite["keys"])]
        given = {"issuer": suite["issuer"], "audience": suite["audience"], "keys_url": self.issuer.url}
        says = {
            "wrong-issuer": "issuer is", "wrong-audience": "audience is", "unknown-key": "does not publish",
            "wrong-signature": "signature", "expired": "expired", "too-early": "in the future",
            "malformed": "not a viewer session|another kind|its claims|more than 8192 characters|longer than 3600 seconds",
        }
        for case in suite["cases"]:
            now = mock.patch("user_group_service.sessions.time.time", return_value=case.get("at", suite["now"]))
            with self.subTest(case["name"]), now:
                if "refused" not in case:
                    verify_viewer_session(case["session"], **given)
                else:
                    with self.assertRaisesRegex(InvalidViewerSession, says[case["refused"]]) as failed:
                        verify_viewer_session(case["session"], **given)
                    if len(case["session"]) > 20:
                        self.assertNotIn(case["session"][-20:], "".join(traceback.format_exception(failed.exception)[-1:]))
        self.assertGreater(len(suite["cases"]), 200)
        self.assertEqual(len(self.issuer.requests), 1)

    def test_rejects_values_that_are_not_strings(self):
        for thing in (None, b"a.b.c", object()):
            with self.assertRaisesRegex(InvalidViewerSession, "not a string"):
                self.verified(thing)
        with self.assertRaisesRegex(ValueError, "issuer and audience"):
            self.verified(self.session(), audience="")
        self.refused("\ud800.b.c", "not a viewer session")

    def test_allows_a_clock_difference_of_five_seconds(self):
        session = self.session()
        for seconds, says in ((-6, "in the future"), (-5, None), (604, None), (605, "expired")):
            with mock.patch("user_group_service.sessions.time.time", return_value=self.now + seconds):
                if says is None:
                    self.verified(session)
                else:
                    self.refused(session, says)

    def test_reads_keys_once_for_many_unknown_keys(self):
        for n in range(20):
            self.refused(self.session(kid=f"k{n + 2}"), "does not publish")
        self.verified(self.session())
        self.assertEqual(len(self.issuer.requests), 1)

    def test_reads_the_keys_again_if_a_session_has_a_new_key(self):
        self.verified(self.session())
        self.issuer.answers = [published([jwk(OTHER_KEY, "k2")])]
        with mock.patch("time.monotonic", return_value=time.monotonic() + 1):
            self.verified(self.session(key=OTHER_KEY, kid="k2"))
            self.refused(self.session(), "does not publish")

    def test_raises_keys_unavailable_if_the_issuer_does_not_respond(self):
        away = (error(503, "unavailable"), error(404, "not_found"), None, (200, {}, b"<html>"), (200, {}, b"[]"), published([]))
        with mock.patch.object(sessions, "_KEYS_PAUSE", 0):
            for answer in away:
                self.issuer.answers = [answer]
                with self.assertRaisesRegex(KeysUnavailable, f"{self.issuer.url}.*check the issuer"):
                    self.verified(self.session())
            self.issuer.answers = [PUBLISHED]
            self.verified(self.session())
        self.issuer.answers = [None]
        with mock.patch("time.monotonic", return_value=time.monotonic() + 1):
            with self.assertRaisesRegex(KeysUnavailable, "returns no keys"):
                self.verified(self.session(kid="k2"))

    def test_only_sessions_with_unknown_keys_wait_for_a_slow_issuer(self):
        self.verified(self.session())
        good, unknown = self.session(), self.session(kid="k2")
        asked, given_up = threading.Event(), threading.Event()

        def read(*_):
            asked.set()
            given_up.wait()
            raise OSError("timed out")

        http = sessions._keys_at(f"{self.issuer.url}/.well-known/jwks.json", os.getpid())._http
        reading = mock.patch.object(http, "get", side_effect=read)
        later = mock.patch("time.monotonic", side_effect=lambda began=time.monotonic(): began + 1)
        with later, reading as reads, ThreadPoolExecutor(11) as threads:
            waiting = [threads.submit(self.verified, unknown) for _ in range(10)]
            asked.wait()
            try:
                # This session must not wait for the blocked read.
                self.assertEqual(threads.submit(self.verified, good).result(60).user_group_id, "acme")
                self.assertFalse(any(each.done() for each in waiting))
            finally:
                given_up.set()
            for each in waiting:
                self.assertIsInstance(each.exception(), KeysUnavailable)
            # All waiting threads share one read.
            self.assertEqual(reads.call_count, 1)

    def test_waits_for_a_slow_issuer_until_the_time_limit(self):
        def drip(handler):
            handler.wfile.write(b"HTTP/1.1 200 OK\r\n\r\n")
            while True:
                handler.wfile.write(b" ")
                time.sleep(0.005)

        self.issuer.answers = [drip]
        with mock.patch.object(sessions, "_KEYS_TIMEOUT", 0.3):
            with self.assertRaisesRegex(KeysUnavailable, "has not responded in time"):
                self.verified(self.session())

    def test_limits_the_size_of_a_response_with_keys(self):
        self.issuer.answers = [(200, {}, b" " * (sessions._MAX_KEYS_BYTES + 1))]
        with self.assertRaisesRegex(KeysUnavailable, "more than 1048576 bytes"):
            self.verified(self.session())


if __name__ == "__main__":
    unittest.main()
