"""Serves HTTP on the port in its arguments under any program name, and reports how it was called.

`docker stop NAME` and `podman stop NAME` stop the server that was started with that name, as the real ones do.
Run by path, with the standard library alone.
"""

from __future__ import annotations

import json
import os
import re
import signal
import sys
from http.server import BaseHTTPRequestHandler, HTTPServer
from itertools import pairwise
from pathlib import Path

PUBLISHED = re.compile(r"(?:[\d.]+:)?(\d+):\d+")
NAMES = Path(os.environ.get("STUB_NAMES", "/nonexistent"))


class EchoHandler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_GET(self) -> None:
        body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
        called = {
            "argv": [Path(sys.argv[0]).name, *sys.argv[1:]],
            "port": port_in(sys.argv[1:]),
            "env": dict(os.environ),
            "path": self.path,
            "headers": {name.lower(): value for name, value in self.headers.items()},
            "body": json.loads(body) if body else None,
        }
        answer = json.dumps(called).encode()
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(answer)))
        self.end_headers()
        self.wfile.write(answer)

    do_POST = do_GET

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002  # the name in the base class
        pass


def port_in(argv: list[str]) -> int:
    for option, value in pairwise(argv):
        if option == "--port":
            return int(value)
        if option in ("-p", "--publish") and (found := PUBLISHED.fullmatch(value)):
            return int(found[1])
    raise SystemExit(f"no port in {argv}")


def name_in(argv: list[str]) -> str | None:
    for option, value in zip(argv, [*argv[1:], ""], strict=True):
        if option.startswith("--name"):
            return option.partition("=")[2] or value
    return None


def main(argv: list[str]) -> None:
    if argv[:1] == ["stop"]:
        os.kill(int((NAMES / argv[-1]).read_text()), signal.SIGTERM)
        return
    if name := name_in(argv):
        (NAMES / name).write_text(str(os.getpid()))
    HTTPServer(("127.0.0.1", port_in(argv)), EchoHandler).serve_forever()


if __name__ == "__main__":
    main(sys.argv[1:])
