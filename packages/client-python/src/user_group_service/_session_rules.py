"""The rules for valid viewer sessions. test/fixtures/viewer-sessions.json contains the test cases of these rules."""

from __future__ import annotations

import base64
import json
import math
import re
from dataclasses import dataclass
from typing import Any

# Maximum lengths of a session and of its header, in characters.
_MAX_LENGTH = 8192
_MAX_HEADER_LENGTH = 256
# Maximum lifetime of a session, in seconds.
_MAX_LIFE = 3600
# Maximum nesting depth of objects and lists in a claim.
_MAX_CLAIM_DEPTH = 32
# Maximum absolute value of the integers in claims. A double represents all of these integers exactly.
_MAX_WHOLE = 2**53 - 1
_BASE64URL = re.compile("[A-Za-z0-9_-]+")

_NO_SESSION = "it is not a viewer session"
_OTHER_CLAIMS = "its claims are not those of a viewer session"


class InvalidViewerSession(Exception):
    """The viewer session is not valid. The message contains the reason. Respond with HTTP 401."""


@dataclass(frozen=True)
class Unverified:
    kid: str
    claims: dict[str, Any]
    signed: bytes
    signature: bytes


def read_session(session: object) -> Unverified:
    """Parse a session. The header must contain exactly the key id, the type and the algorithm (RFC 8725)."""
    if not isinstance(session, str):
        raise InvalidViewerSession(f"it is not a string but {type(session).__name__}")
    if len(session) > _MAX_LENGTH:
        raise InvalidViewerSession(f"it has more than {_MAX_LENGTH} characters")
    parts = session.split(".")
    if len(parts) != 3 or len(parts[0]) > _MAX_HEADER_LENGTH:
        raise InvalidViewerSession(_NO_SESSION)
    head, payload, signature = parts
    try:
        header, claims, decoded = _object(head), _object(payload), _decode(signature)
    except (ValueError, OverflowError, RecursionError):
        # `from None` removes the error of the parser, because that error contains parts of the session.
        raise InvalidViewerSession(_NO_SESSION) from None
    if len(decoded) != 64:
        raise InvalidViewerSession(_NO_SESSION)
    kid = header.get("kid")
    if header != {"alg": "ES256", "typ": "viewer+jwt", "kid": kid} or not isinstance(kid, str) or not kid:
        raise InvalidViewerSession("it is another kind of JWT")
    return Unverified(kid, claims, f"{head}.{payload}".encode(), decoded)


def require_claims(claims: dict[str, Any]) -> None:
    """Reject claims that the service never issues, because an attacker with a stolen key can sign any claims."""
    texts = all(isinstance(claims.get(name), str) for name in ("iss", "aud", "sub", "jti"))
    wholes = all(_is_whole(claims.get(name)) for name in ("tid", "gen", "iat", "exp"))
    optional = all(isinstance(claims.get(name, ""), str) for name in ("vid", "origin"))
    objects = all(isinstance(claims.get(name, {}), dict) for name in ("properties", "ext"))
    if not (texts and wholes and optional and objects) or "nbf" in claims:
        raise InvalidViewerSession(_OTHER_CLAIMS)
    if claims["exp"] - claims["iat"] > _MAX_LIFE:
        raise InvalidViewerSession(f"its lifetime is longer than {_MAX_LIFE} seconds")


def _is_whole(value: object) -> bool:
    if isinstance(value, bool) or not isinstance(value, int | float):
        return False
    return abs(value) <= _MAX_WHOLE and value == int(value)


def _decode(part: str) -> bytes:
    decoded = base64.urlsafe_b64decode(part + "=" * (-len(part) % 4)) if _BASE64URL.fullmatch(part) else b""
    # The texts differ if the unused bits of the last character are not zero.
    if base64.urlsafe_b64encode(decoded).decode().rstrip("=") != part:
        raise ValueError("not base64url")
    return decoded


def _object(part: str) -> dict[str, Any]:
    value = json.loads(_decode(part).decode(), object_pairs_hook=_members, parse_constant=_refuse)
    if not isinstance(value, dict):
        raise ValueError("not an object")
    _require_sound(value)
    return value


def _members(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    members = dict(pairs)
    if len(members) != len(pairs):
        raise ValueError("duplicate member names")
    return members


def _refuse(constant: str) -> None:
    raise ValueError(f"{constant} is not valid JSON")


def _require_sound(value: object, depth: int = 0) -> None:
    if isinstance(value, str):
        # `encode` fails for an unpaired surrogate.
        value.encode()
    elif isinstance(value, int | float):
        # `float` fails for an integer above the range of a double.
        if not math.isfinite(float(value)):
            raise ValueError("a number is too large")
    elif isinstance(value, dict | list):
        if depth > _MAX_CLAIM_DEPTH:
            raise ValueError("it is nested too deeply")
        for each in (*value, *value.values()) if isinstance(value, dict) else value:
            _require_sound(each, depth + 1)
