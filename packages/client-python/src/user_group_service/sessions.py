"""Verifies viewer sessions with the published keys of their issuer.

If the keys are cached, a verification needs no request to the service.
"""

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

# Maximum accepted difference between the clocks of the service and of this machine, in seconds.
_LEEWAY = 5
# Time for which keys are cached, in seconds.
_KEYS_LIFE = 600
# Minimum time between the end of a read and the next read, in seconds. A key that is not cached causes a read.
_KEYS_PAUSE = 1
# Time limit of a read, in seconds, and maximum size of the response, in bytes.
_KEYS_TIMEOUT = 5
_MAX_KEYS_BYTES = 1024 * 1024


class KeysUnavailable(Exception):
    """The keys cannot be read, so the session cannot be verified. Respond with HTTP 503."""


@dataclass(frozen=True)
class ViewerSession:
    """The claims of a verified viewer session."""

    id: str
    """The unique id of the session: the claim `jti`."""
    user_group_id: str
    """The id of the user group: the claim `sub`."""
    team_id: int
    """The internal id of the user group: the claim `tid`."""
    viewer_id: str | None
    """The id of the viewer within the group: the claim `vid`. None if the session has no viewer id."""
    origin: str | None
    """The origin of the page. None if the session has no origin."""
    create_time: datetime
    """The creation time of the session: the claim `iat`."""
    expire_time: datetime
    """The expiry time of the session: the claim `exp`."""
    properties: Mapping[str, Any] = field(default_factory=dict)
    """The properties of the group that CreateViewerSession requested. A later change of the group does not change these
    values."""
    claims: Mapping[str, Any] = field(default_factory=dict)
    """The additional claims that the back end has chosen: the content of the claim `ext`."""


def verify_viewer_session(session: str, *, issuer: str, audience: str, keys_url: str | None = None) -> ViewerSession:
    """Verify a viewer session.

    This function caches the keys of the issuer for 10 minutes. If the key of a session is not cached, this function
    reads the keys again, at most once a second. A read blocks for at most 5 seconds. If your program uses asyncio, call
    this function through `asyncio.to_thread`.

    This function accepts a revoked session until the session expires. ResolveViewer rejects a revoked session
    immediately.

    Args:
        session: The session that the page sent.
        issuer: The issuer, such as `https://groups.example.com/e/acme/Customer`. Never take the issuer from a session.
        audience: The `audience` of CreateViewerSession.
        keys_url: URL of the keys. Set this URL if the process cannot reach the default,
            `{issuer}/.well-known/jwks.json`.

    Raises:
        InvalidViewerSession: The session is invalid or expired, or has another issuer or audience.
        KeysUnavailable: The keys cannot be read.
        ValueError: `issuer` or `audience` is empty.

    """
    if not issuer or not audience:
        raise ValueError("issuer and audience must be set: otherwise sessions of other environments would be accepted")
    unverified = read_session(session)
    claims = unverified.claims
    # Check the issuer before the keys are read, so that a session of another issuer causes no request.
    made_by = claims.get("iss")
    if isinstance(made_by, str) and made_by != issuer:
        raise InvalidViewerSession(f"its issuer is {made_by[:300]!r}, not {issuer!r}")
    # Each process has its own cache of keys, because a process can fork while one of its threads reads the keys. The
    # child process does not have this thread, so in a copy of the cache, this read would never end.
    keys = _keys_at(keys_url or f"{issuer}/.well-known/jwks.json", os.getpid())
    r, s = (int.from_bytes(half) for half in (unverified.signature[:32], unverified.signature[32:]))
    try:
        keys.key(unverified.kid).verify(encode_dss_signature(r, s), unverified.signed, ECDSA(SHA256()))
    except InvalidSignature:
        raise InvalidViewerSession("its signature is wrong") from None
    require_claims(claims)
    if claims["aud"] != audience:
        raise InvalidViewerSession(f"its audience is {claims['aud'][:300]!r}, not {audience!r}")
    now = time.time()
    if now >= claims["exp"] + _LEEWAY:
        raise InvalidViewerSession("it has expired")
    if now < claims["iat"] - _LEEWAY:
        raise InvalidViewerSession("its creation time is in the future: check the clocks")
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
    """The cached keys of an issuer.

    Only one thread at a time reads the keys. Another thread waits for this read only if its key is not cached.
    """

    def __init__(self, url: str) -> None:
        self._url = url
        self._http = Http(max_answer_bytes=_MAX_KEYS_BYTES)
        # The lock is not held while a request reads the keys.
        self._lock = threading.Lock()
        self._keys: Mapping[str, EllipticCurvePublicKey] = {}
        self._read_at = self._tried_at = float("-inf")
        self._failure: str | None = None
        # This event is set at the end of the read in flight. None if no read is in flight.
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
            # Each read ends within this time.
            reading.wait(2 * _KEYS_TIMEOUT)
        # No lock is needed: another thread can replace the mapping, but never changes the content of a mapping.
        found = found or self._keys.get(kid)
        if found is None and self._failure is not None:
            raise KeysUnavailable(self._failure)
        if found is None:
            raise InvalidViewerSession("its issuer does not publish the key that signed the session")
        return found

    def _read(self) -> None:
        keys: Mapping[str, EllipticCurvePublicKey] | None = None
        failure = "the read was interrupted"
        try:
            keys = self._published()
        except Exception as error:
            failure = str(error)
        finally:
            with self._lock:
                self._tried_at = time.monotonic()
                self._failure = None
                if keys is None:
                    self._failure = f"{self._url} returns no keys: check the issuer: {failure}"
                else:
                    self._keys, self._read_at = keys, self._tried_at
                reading, self._reading = self._reading, None
            if reading is not None:
                reading.set()

    def _published(self) -> Mapping[str, EllipticCurvePublicKey]:
        status, body = self._http.get(self._url, _KEYS_TIMEOUT)
        if status != 200:
            raise ValueError(f"it responds with status {status}")
        keys = {each["kid"]: _public_key(each) for each in json.loads(body)["keys"] if _is_of_es256(each)}
        if not keys:
            raise ValueError("the response contains no keys")
        return keys


@functools.lru_cache(maxsize=64)
def _keys_at(url: str, process: int) -> _PublishedKeys:
    return _PublishedKeys(url)


def _is_of_es256(jwk: Mapping[str, Any]) -> bool:
    return jwk.get("kty") == "EC" and jwk.get("crv") == "P-256" and isinstance(jwk.get("kid"), str)


def _public_key(jwk: Mapping[str, Any]) -> EllipticCurvePublicKey:
    x, y = (int.from_bytes(base64.urlsafe_b64decode(jwk[name] + "==")) for name in ("x", "y"))
    # `public_key` fails for a point that is not on the curve.
    return EllipticCurvePublicNumbers(x, y, SECP256R1()).public_key()
