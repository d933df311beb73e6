"""hotseat behind nginx, both configured by the lines of the how-to."""

from __future__ import annotations

import http.client
import json
from typing import TYPE_CHECKING

import pytest
import yaml
from tests.support.client import PATIENCE_S, Stream, chat_body, send
from tests.support.forked_hotseat import ForkedHotseat
from tests.support.nginx import HOST, nginx, shown, status
from tests.support.stubs import stub

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


def in_flight(port: int) -> int:
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=PATIENCE_S)
    answer = send(connection, "GET", "/hotseat/models/slow", None, {"Host": HOST}).read()
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
    """The first of a hundred words arrives while the model still speaks."""
    connection = http.client.HTTPConnection("127.0.0.1", behind, timeout=PATIENCE_S)
    body = chat_body("slow", 100, stream=True)
    stream = Stream(
        send(connection, "POST", "/v1/chat/completions", body, {"Host": HOST}), connection
    ).until_it_speaks()
    still = in_flight(behind)
    stream.leave()

    assert still == 1


def test_only_the_host_that_is_named_is_served(behind: int) -> None:
    """The proxy passes on what clients call it, and hotseat judges that."""
    assert status(behind, "/v1/models", Host=HOST) == 200
    assert status(behind, "/v1/models", Host="evil.example.org") == 403
