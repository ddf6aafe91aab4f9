"""Which texts are taken for viewer sessions. What a real service makes is tried in test_service.py."""

import base64
import hmac
import json
import threading
import time
import unittest
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime
from unittest import mock

import jwt
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat
from fake import Answers, error, published
from user_group_service import InvalidViewerSession, KeysUnavailable, sessions, verify_viewer_session

KEY = ec.generate_private_key(ec.SECP256R1())
PUBLIC_KEY = KEY.public_key().public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo)
OTHER_KEY = ec.generate_private_key(ec.SECP256R1())
HEADER = {"typ": "viewer+jwt", "kid": "k1"}


def jwk(key, kid):
    public = json.loads(jwt.algorithms.ECAlgorithm.to_jwk(key.public_key()))
    return {**public, "kid": kid, "use": "sig", "alg": "ES256"}


PUBLISHED = published([jwk(KEY, "k1")])


class Sessions(unittest.TestCase):
    def setUp(self):
        self.issuer = self.enterContext(Answers(PUBLISHED))
        self.now = int(time.time())

    def claims(self, **changed):
        made = {"iss": self.issuer.url, "aud": "dashboards", "sub": "acme", "tid": 7, "jti": "j1"}
        return {**made, "iat": self.now, "exp": self.now + 600, **changed}

    def session(self, key=KEY, header=HEADER, algorithm="ES256", **changed):
        claims = {name: value for name, value in self.claims(**changed).items() if value is not None}
        return jwt.encode(claims, key, algorithm=algorithm, headers=header)

    def verified(self, session, audience="dashboards"):
        return verify_viewer_session(session, issuer=self.issuer.url, audience=audience)

    def refused(self, session, says, **options):
        with self.assertRaisesRegex(InvalidViewerSession, says) as failed:
            self.verified(session, **options)
        if len(session) > 20:
            self.assertNotIn(session[-20:], str(failed.exception))

    def test_a_good_one_says_who_is_looking(self):
        found = self.verified(
            self.session(vid="bob", origin="https://a.example", properties={"plan": "gold"}, ext={"theme": "dark"})
        )
        self.assertEqual((found.user_group_id, found.team_id, found.viewer_id, found.id), ("acme", 7, "bob", "j1"))
        self.assertEqual((found.origin, found.properties, found.claims), ("https://a.example", {"plan": "gold"}, {"theme": "dark"}))
        self.assertEqual((found.expire_time - found.create_time).total_seconds(), 600)
        self.assertEqual(self.verified(self.session()).viewer_id, None)

    def test_every_other_text_is_refused(self):
        good = self.session()
        start, payload, signature = good.split(".")
        self.refused(self.session(key=OTHER_KEY), "[Ss]ignature")
        self.refused(f"{start}.{payload}.{signature[:-4]}AAAA", "[Ss]ignature")
        elsewhere = "https://elsewhere.example"
        self.refused(self.session(iss=elsewhere), f"of the issuer '{elsewhere}', not '{self.issuer.url}'")
        self.refused(good, "the audience 'dashboards', not 'reports'", audience="reports")
        self.refused(self.session(exp=self.now - 10), "expired")
        self.refused(self.session(iat=self.now + 60), "from the future: check the clocks")
        self.refused(self.session(header={**HEADER, "typ": "JWT"}), "another kind of JWT")
        # By the key that everybody knows, as the secret: PyJWT makes none.
        start = self.session(key="k" * 32, algorithm="HS256").rpartition(".")[0]
        forged = hmac.digest(PUBLIC_KEY, start.encode(), "sha256")
        self.refused(f"{start}.{base64.urlsafe_b64encode(forged).decode().rstrip('=')}", "another kind of JWT")
        self.refused(self.session(key=None, algorithm="none"), "another kind of JWT")
        self.refused(self.session(header={"typ": "viewer+jwt"}), "another kind of JWT")
        self.refused(self.session(header={**HEADER, "kid": "k2"}), "a key that its issuer does not publish")
        for name in ("exp", "iat", "iss", "aud", "sub", "jti", "tid"):
            self.refused(self.session(**{name: None}), name)
        for text in ("", "a.b.c", "ugt_0", "é.é.é", "\ud800.b.c", "x" * 8193):
            self.refused(text, ".")
        for thing in (None, b"a.b.c", object()):
            with self.assertRaisesRegex(InvalidViewerSession, "no text but of the type"):
                self.verified(thing)
        with self.assertRaisesRegex(ValueError, "issuer and audience"):
            self.verified(good, audience="")

    def test_clocks_may_differ_by_five_seconds(self):
        session = self.session()
        for seconds, says in ((-6, "from the future"), (-5, None), (604, None), (605, "expired")):
            with mock.patch("jwt.api_jwt.datetime") as clock:
                clock.now.return_value = datetime.fromtimestamp(self.now + seconds, UTC)
                if says is None:
                    self.verified(session)
                else:
                    self.refused(session, says)

    def test_keys_are_read_once_however_many_unknown_ones_are_named(self):
        for n in range(20):
            self.refused(self.session(header={**HEADER, "kid": f"k{n + 2}"}), "does not publish")
        self.verified(self.session())
        self.assertEqual(len(self.issuer.requests), 1)

    def test_a_key_that_came_since_is_read(self):
        self.verified(self.session())
        self.issuer.answers = [published([jwk(OTHER_KEY, "k2")])]
        with mock.patch("time.monotonic", return_value=time.monotonic() + 31):
            self.verified(self.session(key=OTHER_KEY, header={**HEADER, "kid": "k2"}))
            self.refused(self.session(), "does not publish")

    def test_an_issuer_that_does_not_answer_is_not_the_fault_of_the_session(self):
        away = (error(503, "unavailable"), error(404, "not_found"), None, (200, {}, b"<html>"), (200, {}, b"[]"), published([]))
        with mock.patch.object(sessions, "_FAILURE_PAUSE", 0):
            for answer in away:
                self.issuer.answers = [answer]
                with self.assertRaisesRegex(KeysUnavailable, f"{self.issuer.url}.*is the issuer right"):
                    self.verified(self.session())
            self.issuer.answers = [PUBLISHED]
            self.verified(self.session())
        self.issuer.answers = [None]
        with mock.patch("time.monotonic", return_value=time.monotonic() + 31):
            with self.assertRaisesRegex(KeysUnavailable, "does not answer"):
                self.verified(self.session(header={**HEADER, "kid": "k2"}))

    def test_those_whose_key_is_not_known_wait_once_for_an_issuer_that_is_slow_and_the_others_do_not(self):
        self.verified(self.session())
        good, unknown = self.session(), self.session(header={**HEADER, "kid": "k2"})
        asked, given_up = threading.Event(), threading.Event()

        def read():
            asked.set()
            given_up.wait()
            raise OSError("timed out")

        client = sessions._keys_of(self.issuer.url)._client
        pauses = mock.patch.multiple(sessions, _KEYS_PAUSE=0, _FAILURE_PAUSE=3600)
        reading = mock.patch.object(client, "get_signing_keys", side_effect=read)
        with pauses, reading as reads, ThreadPoolExecutor(11) as threads:
            waiting = [threads.submit(self.verified, unknown) for _ in range(10)]
            asked.wait()
            try:
                # It waits for nobody; if it did, it would wait for ever.
                self.assertEqual(threads.submit(self.verified, good).result(60).user_group_id, "acme")
                self.assertFalse(any(each.done() for each in waiting))
            finally:
                given_up.set()
            for each in waiting:
                self.assertIsInstance(each.exception(), KeysUnavailable)
            # Not one after the other, each for an attempt of its own.
            self.assertEqual(reads.call_count, 1)


if __name__ == "__main__":
    unittest.main()
