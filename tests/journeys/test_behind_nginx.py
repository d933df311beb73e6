"""hotseat behind nginx, both configured by the lines of the how-to."""

from __future__ import annotations

import http.client
import json
import subprocess
from contextlib import contextmanager
from typing import TYPE_CHECKING

import pytest
import yaml
from scripts.make_docs import DOCS
from tests.support.client import PATIENCE_S, Stream, chat_body, send
from tests.support.forked_hotseat import ForkedHotseat
from tests.support.page_blocks import blocks_of
from tests.support.ports import free_port
from tests.support.stubs import stub
from tests.support.waiting import eventually

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

NGINX = """
daemon off; master_process off; pid {folder}/nginx.pid; error_log stderr;
events {{ }}
http {{
  access_log off;
  client_body_temp_path {folder}/1; proxy_temp_path {folder}/2;
  fastcgi_temp_path {folder}/3; uwsgi_temp_path {folder}/4; scgi_temp_path {folder}/5;
  server {{ listen 127.0.0.1:{port}; {location} }}
}}
"""


def shown(kind: str) -> str:
    page = (DOCS / "howto/reverse-proxy.md").read_text()
    return next(block.text for block in blocks_of(page) if block.kind == kind)


@contextmanager
def nginx(folder: Path, location: str) -> Iterator[int]:
    port, config = free_port(), folder / "nginx.conf"
    config.write_text(NGINX.format(folder=folder, port=port, location=location))
    with subprocess.Popen(["nginx", "-p", folder, "-c", config], stderr=subprocess.DEVNULL) as process:
        try:
            eventually(lambda: status(port, "/health", "models.example.org") == 200, within=PATIENCE_S)
            yield port
        finally:
            process.terminate()


def status(port: int, path: str, host: str) -> int:
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=PATIENCE_S)
    try:
        return send(connection, "GET", path, None, {"Host": host}).status
    except OSError:
        return 0
    finally:
        connection.close()


def in_flight(port: int) -> int:
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=PATIENCE_S)
    answer = send(connection, "GET", "/hotseat/models/slow", None, {"Host": "models.example.org"}).read()
    connection.close()
    return int(json.loads(answer)["in_flight"])


@pytest.fixture
def behind(tmp_path: Path) -> Iterator[int]:
    """The port of an nginx in front of a hotseat whose model speaks a word every two seconds."""
    config = yaml.safe_load(shown("yaml"))
    config |= {"models": {"slow": stub("slow", "--token-delay 2")}}
    with ForkedHotseat(config, tmp_path) as hotseat:
        location = shown("nginx").replace(":8080", f":{hotseat.port}")
        with nginx(tmp_path, location) as port:
            yield port


def test_a_stream_is_not_held_back(behind: int) -> None:
    """The first of five words arrives while the model still speaks."""
    connection = http.client.HTTPConnection("127.0.0.1", behind, timeout=PATIENCE_S)
    body = chat_body("slow", 5, stream=True)
    stream = Stream(
        send(connection, "POST", "/v1/chat/completions", body, {"Host": "models.example.org"}), connection
    ).until_it_speaks()
    still = in_flight(behind)
    stream.leave()

    assert still == 1


def test_only_the_host_that_is_named_is_served(behind: int) -> None:
    """The proxy passes on what clients call it, and hotseat judges that."""
    assert status(behind, "/v1/models", "models.example.org") == 200
    assert status(behind, "/v1/models", "evil.example.org") == 403
