"""A server that streams slowly: `PORT`, a file that ends the streams when it exists, and `alone` for a single thread.

A server of one thread answers nothing else while it streams. It uses hardly any processor time.
"""

from __future__ import annotations

import os
import sys
import time
from http.server import BaseHTTPRequestHandler, HTTPServer, ThreadingHTTPServer

EVERY_S = 0.25


class Answers(BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        self.send_response(200)
        self.send_header("Content-Length", "0")
        self.end_headers()

    def do_POST(self) -> None:
        self.rfile.read(int(self.headers["Content-Length"]))
        self.send_response(200)
        self.send_header("Content-Type", "text/event-stream")
        self.end_headers()
        self._say(b'{"choices": [{"delta": {"content": "word"}}]}')
        while not os.path.exists(sys.argv[2]):
            time.sleep(EVERY_S)
            self._say(b'{"choices": [{"delta": {"content": "word"}}]}')
        self._say(b"[DONE]")

    def _say(self, data: bytes) -> None:
        self.wfile.write(b"data: %b\n\n" % data)


if __name__ == "__main__":
    kind = HTTPServer if "alone" in sys.argv else ThreadingHTTPServer
    kind(("127.0.0.1", int(sys.argv[1])), Answers).serve_forever()
