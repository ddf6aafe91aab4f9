"""Sends bursts of concurrent unary calls to a server, each burst on a new channel.

Arguments: HOST:PORT METHOD_PATH REQUEST_IN_HEX API_TOKEN BURSTS CALLS_PER_BURST DEADLINE_IN_SECONDS
Prints one JSON object per burst with the number of calls per code.
"""

import collections
import json
import sys

import grpc

host, path, message, token, bursts, calls, deadline = sys.argv[1:]
request = bytes.fromhex(message)
metadata = [("authorization", f"Token {token}")]

for _ in range(int(bursts)):
    with grpc.insecure_channel(host) as channel:
        method = channel.unary_unary(path)
        begun = [method.future(request, timeout=float(deadline), metadata=metadata) for _ in range(int(calls))]
        codes = collections.Counter(call.code().name for call in begun)
    print(json.dumps(codes), flush=True)
