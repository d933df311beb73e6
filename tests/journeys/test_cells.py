"""Two cells behind one address, with the HAProxy and hotseat configurations of the page about scale."""

from __future__ import annotations

import http.client
import subprocess
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pytest
import yaml
from scripts.make_docs import DOCS
from tests.support.client import PATIENCE_S, Answer, chat_body, send
from tests.support.fleet_journey import CONNECT_S, nats_cluster
from tests.support.forked_hotseat import ForkedHotseat
from tests.support.page_blocks import blocks_of
from tests.support.ports import free_port
from tests.support.stubs import stub
from tests.support.waiting import eventually

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from tests.support.hotseat import Hotseat

BUFFER = 131072
"""`tune.bufsize` of the page."""


def shown(kind: str) -> str:
    page = (DOCS / "design/scale.md").read_text()
    return next(block.text for block in blocks_of(page) if block.kind == kind)


@dataclass(frozen=True)
class Cells:
    port: int
    """HAProxy's."""
    main: Hotseat
    lab: Hotseat

    def chat(self, model: str, words: str = "Hello", **headers: str) -> Answer:
        """The model's name comes last, as some clients write it."""
        body = {**chat_body(model, 2), "messages": [{"role": "user", "content": words}]}
        del body["model"]
        return self.call("POST", "/v1/chat/completions", {**body, "model": model}, **headers)

    def call(self, method: str, path: str, body: object = None, **headers: str) -> Answer:
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=PATIENCE_S)
        try:
            response = send(connection, method, path, body, {"Host": "models.example.org", **headers})
            return Answer(response.status, response.headers, response.read())
        finally:
            connection.close()

    def reaches(self, cell: str) -> bool:
        """Is this cell healthy, as HAProxy sees it?"""
        try:
            return self.call("GET", "/hotseat/ready", Cell=cell).status == 200
        except OSError:
            return False


def host_of(cell: str, models: dict[str, Any], folder: Path, stack: ExitStack, lab_port: int | None) -> Hotseat:
    """A host as in the page, with a NATS server of its cell and these models."""
    config = yaml.safe_load(shown("yaml"))
    (nats,) = stack.enter_context(nats_cluster(folder / f"nats-{cell}", 1))
    fleet = {"nats": [nats.url], "name": f"{cell}-1", "secret": f"secret-of-{cell}"}
    peers = {"lab": {**config.pop("peers")["lab"], "proxy": f"http://127.0.0.1:{lab_port}"}} if lab_port else {}
    config |= {"fleet": fleet, "models": models, "trustedProxies": ["127.0.0.1"], "peers": peers}
    (folder / cell).mkdir()
    return stack.enter_context(ForkedHotseat(config, folder / cell))


def haproxy_file(folder: Path, addresses: dict[str, int]) -> Path:
    """The page's file with ports of this machine, and one host for each cell."""
    lines = shown("haproxy").splitlines()
    text = "\n".join(line for line in lines if not line.strip().startswith(("server main-2", "server lab-2")))
    for address, port in addresses.items():
        assert f" {address}" in text
        text = text.replace(f" {address}", f" 127.0.0.1:{port}")
    file = folder / "haproxy.cfg"
    file.write_text(f"{text}\n")
    return file


@contextmanager
def haproxy(file: Path) -> Iterator[None]:
    with subprocess.Popen(["haproxy", "-db", "-f", file], stderr=subprocess.DEVNULL) as process:
        try:
            yield
        finally:
            process.terminate()


@pytest.fixture
def cells(tmp_path: Path) -> Iterator[Cells]:
    with ExitStack() as stack:
        port, lab_port = free_port(), free_port()
        main = host_of("main", {"qwen3": stub("qwen3")}, tmp_path, stack, lab_port)
        lab = host_of("lab", {"lab-qwen3": stub("lab-qwen3")}, tmp_path, stack, None)
        addresses = {"10.0.1.1:8080": main.port, "10.0.2.1:8080": lab.port, ":8080": port, ":8081": lab_port}
        stack.enter_context(haproxy(haproxy_file(tmp_path, addresses)))
        two = Cells(port, main, lab)
        eventually(lambda: all("connected to the fleet" in host.log() for host in (main, lab)), within=CONNECT_S)
        eventually(lambda: two.reaches("main") and two.reaches("lab"), within=PATIENCE_S)
        yield two


def test_the_file_of_the_page_is_valid(tmp_path: Path) -> None:
    """HAProxy accepts the page's file as it is and warns of nothing."""
    file = tmp_path / "haproxy.cfg"
    file.write_text(shown("haproxy"))
    said = subprocess.run(["haproxy", "-c", "-f", file], capture_output=True, text=True, timeout=PATIENCE_S)

    assert (said.returncode, said.stderr) == (0, ""), said.stderr


def test_requests_go_to_the_cell_of_their_model(cells: Cells) -> None:
    """The name of a model or a header decides, and the other cell loads nothing."""
    assert cells.chat("lab-qwen3").status == 200
    assert cells.main.running() == []
    assert cells.chat("qwen3").status == 200
    assert cells.lab.running() == ["lab-qwen3"]
    assert cells.chat("qwen3", Cell="lab").status == 404
    assert cells.call("GET", "/upstream/lab-qwen3/health").status == 200


def test_a_request_that_is_too_long_for_the_load_balancer_is_served(cells: Cells) -> None:
    """HAProxy cannot read the model's name, so `main` gets the request and forwards it to `lab`."""
    answer = cells.chat("lab-qwen3", "word " * BUFFER)

    assert answer.status == 200
    assert (cells.main.running(), cells.lab.running()) == ([], ["lab-qwen3"])
    assert {entry["id"] for entry in cells.call("GET", "/v1/models").json()["data"]} >= {"qwen3", "lab/lab-qwen3"}


def test_the_failure_of_a_cell_affects_only_its_models(cells: Cells) -> None:
    """When `lab` has stopped, its models get 503 and those of `main` answer."""
    cells.lab.terminate()
    eventually(lambda: cells.chat("lab-qwen3").status == 503, within=PATIENCE_S)

    assert cells.chat("qwen3").status == 200
