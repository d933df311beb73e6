"""A model server that reads uploads and answers with what it read: how much it was, and its digest.

    python -I -S digesting_server.py PORT

A program of its own, standard library only.
"""

from __future__ import annotations

import json
import sys
from hashlib import sha256
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

PIECE = 1 << 20


class Desk(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_GET(self) -> None:
        self._answer({"status": "ok"})

    def do_POST(self) -> None:
        digest, left = sha256(), int(self.headers["Content-Length"])
        while left and (piece := self.rfile.read(min(left, PIECE))):
            digest.update(piece)
            left -= len(piece)
        self._answer({"missing": left, "digest": digest.hexdigest()})

    def _answer(self, told: dict[str, object]) -> None:
        body = json.dumps(told).encode()
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)


if __name__ == "__main__":
    ThreadingHTTPServer(("127.0.0.1", int(sys.argv[1])), Desk).serve_forever()
