"""Viewer sessions, verified by the keys that the service publishes, without asking it."""

from __future__ import annotations

import base64
import functools
import json
import os
import threading
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric.ec import (
    ECDSA,
    SECP256R1,
    EllipticCurvePublicKey,
    EllipticCurvePublicNumbers,
)
from cryptography.hazmat.primitives.asymmetric.utils import encode_dss_signature
from cryptography.hazmat.primitives.hashes import SHA256

from ._http import Http
from ._session_rules import InvalidViewerSession, read_session, require_claims

# By how much clocks may differ, in seconds.
_LEEWAY = 5
# What the service's Cache-Control allows, in seconds.
_KEYS_LIFE = 600
# The shortest time between two reads, for a key that is not among them, or because they could not be read.
_KEYS_PAUSE = 1
# How long reading them may take, to the end of the answer, and how much is read.
_KEYS_TIMEOUT = 5
_MAX_KEYS_BYTES = 1024 * 1024


class KeysUnavailable(Exception):
    """The keys could not be read, so that nothing can be said of a session. Answer it with HTTP 503."""


@dataclass(frozen=True)
class ViewerSession:
    """What a verified viewer session says."""

    id: str
    """The claim `jti`."""
    user_group_id: str
    """The id that you gave the group: the claim `sub`."""
    team_id: int
    """The claim `tid`."""
    viewer_id: str | None
    """The person within the group: the claim `vid`. None: nobody was named."""
    origin: str | None
    """The origin of the page that it was made for."""
    create_time: datetime
    expire_time: datetime
    properties: Mapping[str, Any] = field(default_factory=dict)
    """Those of the group's properties that were asked for, as they were when it was made."""
    claims: Mapping[str, Any] = field(default_factory=dict)
    """What its maker added: the claim `ext`."""


def verify_viewer_session(session: str, *, issuer: str, audience: str, keys_url: str | None = None) -> ViewerSession:
    """Verify a viewer session.

    It reads the issuer's keys when it has none, when they are 10 minutes old, and, at most once a second, for a key that
    is not among them. That blocks, for 5 seconds at most: under asyncio call it by `asyncio.to_thread`.

    Who verifies alone does not see that a session was ended before its time: ResolveViewer tells.

    Args:
        session: The text that the page sent.
        issuer: Who makes your sessions, such as `https://groups.example.com/e/acme/Customer`. Never take it from a session.
        audience: Whom they are made for: the `audience` of CreateViewerSession.
        keys_url: Where the keys are read, if the URL below the issuer is not reached from here.

    Raises:
        InvalidViewerSession: It is not one, or not for you, or has expired.
        KeysUnavailable: The issuer does not answer with its keys.
        ValueError: `issuer` or `audience` is empty.

    """
    if not issuer or not audience:
        raise ValueError("issuer and audience have to be set: sessions of others would be taken")
    unverified = read_session(session)
    claims = unverified.claims
    # Before anything is asked of the issuer.
    made_by = claims.get("iss")
    if isinstance(made_by, str) and made_by != issuer:
        raise InvalidViewerSession(f"it is of the issuer {made_by[:300]!r}, not {issuer!r}")
    # A fork may happen while another thread reads keys.
    keys = _keys_at(keys_url or f"{issuer}/.well-known/jwks.json", os.getpid())
    r, s = (int.from_bytes(half) for half in (unverified.signature[:32], unverified.signature[32:]))
    try:
        keys.key(unverified.kid).verify(encode_dss_signature(r, s), unverified.signed, ECDSA(SHA256()))
    except InvalidSignature:
        raise InvalidViewerSession("its signature is wrong") from None
    require_claims(claims)
    if claims["aud"] != audience:
        raise InvalidViewerSession(f"it was made for the audience {claims['aud'][:300]!r}, not {audience!r}")
    now = time.time()
    if now >= claims["exp"] + _LEEWAY:
        raise InvalidViewerSession("it has expired")
    if now < claims["iat"] - _LEEWAY:
        raise InvalidViewerSession("it is from the future: check the clocks")
    return ViewerSession(
        id=claims["jti"],
        user_group_id=claims["sub"],
        team_id=int(claims["tid"]),
        viewer_id=claims.get("vid"),
        origin=claims.get("origin"),
        create_time=datetime.fromtimestamp(claims["iat"], UTC),
        expire_time=datetime.fromtimestamp(claims["exp"], UTC),
        properties=claims.get("properties", {}),
        claims=claims.get("ext", {}),
    )


class _PublishedKeys:
    """The keys of an issuer. They are read by one thread, and only those wait for it whose key is not known."""

    def __init__(self, url: str) -> None:
        self._url = url
        self._http = Http(max_answer_bytes=_MAX_KEYS_BYTES)
        # Not held while keys are read.
        self._lock = threading.Lock()
        self._keys: Mapping[str, EllipticCurvePublicKey] = {}
        self._read_at = self._tried_at = float("-inf")
        self._failure: str | None = None
        # Set once they are read. None: nobody reads them.
        self._reading: threading.Event | None = None

    def key(self, kid: str) -> EllipticCurvePublicKey:
        with self._lock:
            now = time.monotonic()
            if now - self._read_at >= _KEYS_LIFE:
                self._keys = {}
            found, reading = self._keys.get(kid), self._reading
            must_read = found is None and reading is None and now - self._tried_at >= _KEYS_PAUSE
            if must_read:
                self._reading = threading.Event()
        if must_read:
            self._read()
        elif found is None and reading is not None:
            # Longer than reading takes, so that it ends with what came of it.
            reading.wait(2 * _KEYS_TIMEOUT)
        # What was read may be replaced by another thread, never be changed.
        found = found or self._keys.get(kid)
        if found is None and self._failure is not None:
            raise KeysUnavailable(self._failure)
        if found is None:
            raise InvalidViewerSession("it is signed by a key that its issuer does not publish")
        return found

    def _read(self) -> None:
        keys: Mapping[str, EllipticCurvePublicKey] | None = None
        failure = "it was not read to its end"
        try:
            keys = self._published()
        except Exception as error:
            failure = str(error)
        finally:
            with self._lock:
                self._tried_at = time.monotonic()
                self._failure = None
                if keys is None:
                    self._failure = f"{self._url} does not answer with keys; is the issuer right? {failure}"
                else:
                    self._keys, self._read_at = keys, self._tried_at
                reading, self._reading = self._reading, None
            if reading is not None:
                reading.set()

    def _published(self) -> Mapping[str, EllipticCurvePublicKey]:
        status, body = self._http.get(self._url, _KEYS_TIMEOUT)
        if status != 200:
            raise ValueError(f"it answers with status {status}")
        keys = {each["kid"]: _public_key(each) for each in json.loads(body)["keys"] if _is_of_es256(each)}
        if not keys:
            raise ValueError("there are none")
        return keys


@functools.lru_cache(maxsize=64)
def _keys_at(url: str, process: int) -> _PublishedKeys:
    return _PublishedKeys(url)


def _is_of_es256(jwk: Mapping[str, Any]) -> bool:
    # Keys of other kinds are for others.
    return jwk.get("kty") == "EC" and jwk.get("crv") == "P-256" and isinstance(jwk.get("kid"), str)


def _public_key(jwk: Mapping[str, Any]) -> EllipticCurvePublicKey:
    x, y = (int.from_bytes(base64.urlsafe_b64decode(jwk[name] + "==")) for name in ("x", "y"))
    # Fails for a point that is not on the curve.
    return EllipticCurvePublicNumbers(x, y, SECP256R1()).public_key()
