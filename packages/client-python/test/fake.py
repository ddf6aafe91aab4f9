"""Servers in this process that answer as they are told, and note what they are asked."""

import base64
import http.server
import json
import threading


class Answers:
    """Answers each request by the next of what it was given; the last one is given again and again."""

    def __init__(self, *answers):
        self.answers = list(answers)
        self.requests = []
        self._server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), self._handler())
        self.url = f"http://127.0.0.1:{self._server.server_address[1]}"
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
                answer = outer.answers.pop(0) if len(outer.answers) > 1 else outer.answers[0]
                if answer is None:
                    # The connection breaks before the answer.
                    self.close_connection = True
                    return
                status, headers, body = answer
                self.send_response(status)
                for name, value in {"content-length": len(body), **headers}.items():
                    self.send_header(name, value)
                self.end_headers()
                self.wfile.write(body)

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
