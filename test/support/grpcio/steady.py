"""Makes unary calls to several servers in turn until the standard input ends. Does not retry failed calls.

Arguments: HOST:PORT,HOST:PORT,... METHOD_PATH REQUEST_IN_HEX API_TOKEN
At the end, prints a JSON object that maps each outcome to a number of calls. An outcome is OK, or "CODE: DETAILS".
"""

import collections
import json
import sys
import threading
import time

import grpc

hosts, path, message, token = sys.argv[1:]
request = bytes.fromhex(message)
metadata = [("authorization", f"Token {token}")]
options = [("grpc.service_config", json.dumps({"loadBalancingConfig": [{"round_robin": {}}]}))]
ended = threading.Event()
outcomes = collections.Counter()


def call_until_ended(method):
    while not ended.is_set():
        try:
            method(request, timeout=30, metadata=metadata)
            outcomes["OK"] += 1
        except grpc.RpcError as error:
            outcomes[f"{error.code().name}: {error.details()}"] += 1
        time.sleep(0.004)


with grpc.insecure_channel(f"ipv4:{hosts}", options=options) as channel:
    method = channel.unary_unary(path)
    threads = [threading.Thread(target=call_until_ended, args=[method]) for _ in range(8)]
    for thread in threads:
        thread.start()
    sys.stdin.read()
    ended.set()
    for thread in threads:
        thread.join()
print(json.dumps(outcomes))
