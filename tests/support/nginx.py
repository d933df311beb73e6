"""Runs nginx with a location block of the documentation."""

from __future__ import annotations

import http.client
import subprocess
from contextlib import contextmanager
from typing import TYPE_CHECKING

from scripts.make_docs import DOCS
from tests.support.client import PATIENCE_S, send
from tests.support.page_blocks import blocks_of
from tests.support.ports import free_port
from tests.support.waiting import eventually

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

HOST = "models.example.org"
NGINX = """
daemon off; master_process off; pid {folder}/nginx.pid; error_log stderr;
events {{ }}
http {{
  access_log off;
  client_body_temp_path {folder}/1; proxy_temp_path {folder}/2;
  fastcgi_temp_path {folder}/3; uwsgi_temp_path {folder}/4; scgi_temp_path {folder}/5;
  server {{ listen 127.0.0.1:{port}; {locations} }}
}}
"""


def shown(kind: str, containing: str = "") -> str:
    """The first such block of the how-to."""
    page = (DOCS / "howto/reverse-proxy.md").read_text()
    return next(block.text for block in blocks_of(page) if block.kind == kind and containing in block.text)


@contextmanager
def nginx(folder: Path, locations: str) -> Iterator[int]:
    """Its port; it answers inside the block."""
    port, config = free_port(), folder / "nginx.conf"
    config.write_text(NGINX.format(folder=folder, port=port, locations=locations))
    with subprocess.Popen(["nginx", "-p", folder, "-c", config], stderr=subprocess.DEVNULL) as process:
        try:
            eventually(lambda: status(port, "/health", Host=HOST) not in (0, 502), within=PATIENCE_S)
            yield port
        finally:
            process.terminate()


def status(port: int, path: str, method: str = "GET", **headers: str) -> int:
    """0: it does not answer."""
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=PATIENCE_S)
    try:
        return send(
            connection, method, path, None, {name.replace("_", "-"): value for name, value in headers.items()}
        ).status
    except OSError:
        return 0
    finally:
        connection.close()
