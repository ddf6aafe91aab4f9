"""Servers in this process that return given responses, and record requests."""

import base64
import contextlib
import http.server
import json
import socket
import struct
import threading


class Reset:
    """The response of a server that resets the connection."""


class Answers:
    """Answers each request with the next given response. After the last response, repeats that response."""

    def __init__(self, *answers, port=0, tls=None):
        self.answers = list(answers)
        self.requests = []
        self.peers = set()
        self._server = http.server.ThreadingHTTPServer(("127.0.0.1", port), self._handler())
        # Do not print errors, because some tests close connections on purpose.
        self._server.handle_error = lambda *_: None
        if tls:
            # The handshake runs in the thread of the connection, so that the handshake does not block the server.
            self._server.socket = tls.wrap_socket(self._server.socket, server_side=True, do_handshake_on_connect=False)
        self.url = f"http{'s' if tls else ''}://127.0.0.1:{self._server.server_address[1]}"
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.01,))

    def __enter__(self):
        self._thread.start()
        return self

    def __exit__(self, *_):
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()

    def _handler(self):
        outer = self

        class Handler(http.server.BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_POST(self):
                body = self.rfile.read(int(self.headers["content-length"] or 0))
                outer.requests.append((self.headers, body))
                outer.peers.add(self.client_address)
                answer = outer.answers.pop(0) if len(outer.answers) > 1 else outer.answers[0]
                if answer is None or answer is Reset:
                    self.close_connection = True
                    if answer is Reset:
                        self.connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
                        self.connection.close()
                    return
                if callable(answer):
                    self.close_connection = True
                    with contextlib.suppress(OSError):
                        answer(self)
                    return
                status, headers, body = answer
                self.send_response(status)
                for name, value in {"content-length": len(body), **headers}.items():
                    self.send_header(name, value)
                self.end_headers()
                with contextlib.suppress(OSError):
                    self.wfile.write(body)
                if int(headers.get("content-length", 0)) > len(body):
                    self.close_connection = True

            do_GET = do_POST

            def log_message(self, *_):
                pass

        return Handler


def ok(message):
    return 200, {"content-type": "application/proto"}, message.to_binary()


def published(keys):
    return 200, {"content-type": "application/jwk-set+json"}, json.dumps({"keys": keys}).encode()


def error(status, code, *details, headers={}):
    encoded = [
        {"type": one.desc().type_name, "value": base64.b64encode(one.to_binary()).decode().rstrip("=")}
        for one in details
    ]
    body = json.dumps({"code": code, "message": "so", "details": encoded}).encode()
    return status, {"content-type": "application/json", **headers}, body
