"""Verifies viewer sessions by PyJWT, with what their issuer publishes and nothing else.

Reads a question a line, JSON with `session`, `issuer`, `audience`, and `ahead`: by how many seconds the clock of this
verifier is ahead. Answers a line each: the claims, or the name of the library's error.
"""

import datetime
import json
import sys
import urllib.request

import jwt
import time_machine

# How far the clocks of machines may differ, in seconds.
LEEWAY = 60


def verified(session, issuer, audience):
    with urllib.request.urlopen(f"{issuer}/.well-known/openid-configuration") as answer:
        configuration = json.load(answer)
    key = jwt.PyJWKClient(configuration["jwks_uri"]).get_signing_key_from_jwt(session)
    claims = jwt.decode(
        session,
        key,
        algorithms=["ES256"],
        issuer=configuration["issuer"],
        audience=audience,
        leeway=LEEWAY,
        options={"require": ["exp", "iat", "iss", "aud", "sub"]},
    )
    if jwt.get_unverified_header(session)["typ"] != "viewer+jwt":
        raise jwt.InvalidTokenError("another kind of JWT")
    return claims


for line in sys.stdin:
    question = json.loads(line)
    now = datetime.datetime.now(datetime.timezone.utc) + datetime.timedelta(seconds=question["ahead"])
    try:
        with time_machine.travel(now):
            claims = verified(question["session"], question["issuer"], question["audience"])
        print(json.dumps({"claims": claims}), flush=True)
    except jwt.PyJWTError as error:
        print(json.dumps({"error": type(error).__name__}), flush=True)
