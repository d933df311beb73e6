"""A model server for large bodies: answers uploads with their digest, and `GET /large` with many megabytes.

    python -I -S bulk_server.py PORT

A standalone program that uses the standard library only.
"""

from __future__ import annotations

import json
import sys
from hashlib import sha256
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

PIECE = 1 << 20
LARGE = bytes(16 << 20)
"""More than the kernel buffers for a client that does not read."""


class BulkHandler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_GET(self) -> None:
        self._answer(LARGE if self.path == "/large" else b'{"status": "ok"}')

    def do_POST(self) -> None:
        digest, left = sha256(), int(self.headers["Content-Length"])
        while left and (piece := self.rfile.read(min(left, PIECE))):
            digest.update(piece)
            left -= len(piece)
        self._answer(json.dumps({"missing": left, "digest": digest.hexdigest()}).encode())

    def _answer(self, body: bytes) -> None:
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)


class Server(ThreadingHTTPServer):
    request_queue_size = 512


if __name__ == "__main__":
    Server(("127.0.0.1", int(sys.argv[1])), BulkHandler).serve_forever()
