"""What a viewer session has to be: the rules of the service, which test/fixtures/viewer-sessions.json has cases of."""

from __future__ import annotations

import base64
import json
import math
import re
from dataclasses import dataclass
from typing import Any

# The longest session that the service makes, and the longest header of one.
_MAX_LENGTH = 8192
_MAX_HEADER_LENGTH = 256
# The longest that any session lasts, in seconds.
_MAX_LIFE = 3600
# The deepest nesting of objects and lists in a claim.
_MAX_CLAIM_DEPTH = 32
# Up to here every whole number is one of JSON's too.
_MAX_WHOLE = 2**53 - 1
_BASE64URL = re.compile("[A-Za-z0-9_-]+")

_NO_SESSION = "it is no viewer session, but some other text"
_OTHER_CLAIMS = "its claims are not those of a viewer session"


class InvalidViewerSession(Exception):
    """A text is not a viewer session that may be taken: the message says why. Answer it with HTTP 401."""


@dataclass(frozen=True)
class Unverified:
    """A session whose signature is still to be verified."""

    kid: str
    claims: dict[str, Any]
    signed: bytes
    signature: bytes


def read_session(session: object) -> Unverified:
    """Read a session. Its header may have nothing but the id of a key, the type and the one algorithm (RFC 8725)."""
    if not isinstance(session, str):
        raise InvalidViewerSession(f"it is no text but of the type {type(session).__name__}")
    if len(session) > _MAX_LENGTH:
        raise InvalidViewerSession("it is longer than any viewer session")
    parts = session.split(".")
    if len(parts) != 3 or len(parts[0]) > _MAX_HEADER_LENGTH:
        raise InvalidViewerSession(_NO_SESSION)
    head, payload, signature = parts
    try:
        header, claims, decoded = _object(head), _object(payload), _decode(signature)
    except (ValueError, OverflowError, RecursionError):
        # Without its context, which has parts of the session.
        raise InvalidViewerSession(_NO_SESSION) from None
    if len(decoded) != 64:
        raise InvalidViewerSession(_NO_SESSION)
    kid = header.get("kid")
    if header != {"alg": "ES256", "typ": "viewer+jwt", "kid": kid} or not isinstance(kid, str) or not kid:
        raise InvalidViewerSession("it is another kind of JWT")
    return Unverified(kid, claims, f"{head}.{payload}".encode(), decoded)


def require_claims(claims: dict[str, Any]) -> None:
    """Refuse claims that the service would not make: the key may be stolen."""
    texts = all(isinstance(claims.get(name), str) for name in ("iss", "aud", "sub", "jti"))
    wholes = all(_is_whole(claims.get(name)) for name in ("tid", "gen", "iat", "exp"))
    optional = all(isinstance(claims.get(name, ""), str) for name in ("vid", "origin"))
    objects = all(isinstance(claims.get(name, {}), dict) for name in ("properties", "ext"))
    if not (texts and wholes and optional and objects) or "nbf" in claims:
        raise InvalidViewerSession(_OTHER_CLAIMS)
    if claims["exp"] - claims["iat"] > _MAX_LIFE:
        raise InvalidViewerSession("it lasts longer than any viewer session")


def _is_whole(value: object) -> bool:
    if isinstance(value, bool) or not isinstance(value, int | float):
        return False
    return abs(value) <= _MAX_WHOLE and value == int(value)


def _decode(part: str) -> bytes:
    decoded = base64.urlsafe_b64decode(part + "=" * (-len(part) % 4)) if _BASE64URL.fullmatch(part) else b""
    # No spare bits are set.
    if base64.urlsafe_b64encode(decoded).decode().rstrip("=") != part:
        raise ValueError("no base64url")
    return decoded


def _object(part: str) -> dict[str, Any]:
    value = json.loads(_decode(part).decode(), object_pairs_hook=_members, parse_constant=_refuse)
    if not isinstance(value, dict):
        raise ValueError("no object")
    _require_sound(value)
    return value


def _members(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    members = dict(pairs)
    if len(members) != len(pairs):
        raise ValueError("two members have one name")
    return members


def _refuse(constant: str) -> None:
    raise ValueError(f"{constant} is not of JSON")


def _require_sound(value: object, depth: int = 0) -> None:
    if isinstance(value, str):
        # Fails for half of a surrogate pair.
        value.encode()
    elif isinstance(value, int | float):
        # Fails for an integer that no number of JSON's readers can have.
        if not math.isfinite(float(value)):
            raise ValueError("a number is too large")
    elif isinstance(value, dict | list):
        if depth > _MAX_CLAIM_DEPTH:
            raise ValueError("it is nested too deeply")
        for each in (*value, *value.values()) if isinstance(value, dict) else value:
            _require_sound(each, depth + 1)
