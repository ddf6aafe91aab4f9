"""Viewer sessions, verified by the keys that the service publishes, without asking it."""

from __future__ import annotations

import functools
import http.client
import threading
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

import jwt

# The longest that the service makes.
_MAX_LENGTH = 8192
# By how much clocks may differ, in seconds.
_LEEWAY = 5
# What the service's Cache-Control allows, in seconds.
_KEYS_LIFE = 600
# How long to wait before they are read again for a key that is not among them; and after they could not be read, so that
# threads do not wait behind each other.
_KEYS_PAUSE = 30
_FAILURE_PAUSE = 1
_KEYS_TIMEOUT = 5


class InvalidViewerSession(Exception):
    """A text is not a viewer session that may be taken: the message says why. Answer it with HTTP 401."""


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


def verify_viewer_session(session: str, *, issuer: str, audience: str) -> ViewerSession:
    """Verify a viewer session.

    It reads the issuer's keys when it has none, when they are 10 minutes old, and, at most every 30 seconds, for a key
    that is not among them. That blocks: under asyncio call it by `asyncio.to_thread`.

    Who verifies alone does not see that a session was ended before its time: ResolveViewer tells.

    Args:
        session: The text that the page sent.
        issuer: Who makes your sessions, such as `https://groups.example.com/e/acme/Customer`. Never take it from a session.
        audience: Whom they are made for: the `audience` of CreateViewerSession.

    Raises:
        InvalidViewerSession: It is not one, or not for you, or has expired.
        KeysUnavailable: The issuer does not answer with its keys.
        ValueError: `issuer` or `audience` is empty.

    """
    if not issuer or not audience:
        raise ValueError("issuer and audience have to be set: sessions of others would be taken")
    if not isinstance(session, str):
        raise InvalidViewerSession(f"it is no text but of the type {type(session).__name__}")
    if len(session) > _MAX_LENGTH:
        raise InvalidViewerSession("it is longer than any viewer session")
    if not session.isascii():
        raise InvalidViewerSession("it has characters that no viewer session has")
    try:
        # Refuses what is no session of ours before anything is asked of the issuer.
        unverified = jwt.decode_complete(session, options={"verify_signature": False})
        header, made_by = unverified["header"], unverified["payload"].get("iss", issuer)
        if header.get("alg") != "ES256" or header.get("typ") != "viewer+jwt" or not isinstance(header.get("kid"), str):
            raise InvalidViewerSession("it is another kind of JWT")
        if made_by != issuer:
            raise InvalidViewerSession(f"it is of the issuer {str(made_by)[:300]!r}, not {issuer!r}")
        claims = jwt.decode(
            session,
            _keys_of(issuer).key(header["kid"]),
            algorithms=["ES256"],
            issuer=issuer,
            audience=audience,
            leeway=_LEEWAY,
            options={"require": ["exp", "iat", "iss", "aud", "sub", "jti", "tid"]},
        )
    except jwt.InvalidAudienceError as error:
        made_for = unverified["payload"].get("aud")
        raise InvalidViewerSession(f"it was made for the audience {made_for!r}, not {audience!r}") from error
    except jwt.ImmatureSignatureError as error:
        raise InvalidViewerSession("it is from the future: check the clocks") from error
    except jwt.PyJWTError as error:
        raise InvalidViewerSession(str(error)) from error
    return ViewerSession(
        id=claims["jti"],
        user_group_id=claims["sub"],
        team_id=claims["tid"],
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
        self._client = jwt.PyJWKClient(url, cache_jwk_set=False, timeout=_KEYS_TIMEOUT)
        self._reading = threading.Lock()
        self._keys: Mapping[str | None, jwt.PyJWK] = {}
        self._read_at = self._failed_at = float("-inf")
        self._failure = ""

    def key(self, kid: str) -> jwt.PyJWK:
        found = self._known(kid)
        if found is None:
            with self._reading:
                # Another thread may have read them meanwhile.
                found = self._known(kid) or self._read().get(kid)
        if found is None:
            raise InvalidViewerSession("it is signed by a key that its issuer does not publish")
        return found

    def _known(self, kid: str) -> jwt.PyJWK | None:
        return self._keys.get(kid) if time.monotonic() - self._read_at < _KEYS_LIFE else None

    def _read(self) -> Mapping[str | None, jwt.PyJWK]:
        now = time.monotonic()
        if now - self._read_at < _KEYS_PAUSE:
            return self._keys
        if now - self._failed_at < _FAILURE_PAUSE:
            raise KeysUnavailable(self._failure)
        try:
            self._keys = {each.key_id: each for each in self._client.get_signing_keys()}
        except (jwt.PyJWTError, OSError, ValueError, http.client.HTTPException) as error:
            self._failure = f"{self._client.uri} does not answer with keys; is the issuer right? {error}"
            self._failed_at = time.monotonic()
            raise KeysUnavailable(self._failure) from error
        self._read_at = time.monotonic()
        return self._keys


@functools.lru_cache(maxsize=64)
def _keys_of(issuer: str) -> _PublishedKeys:
    return _PublishedKeys(f"{issuer}/.well-known/jwks.json")
