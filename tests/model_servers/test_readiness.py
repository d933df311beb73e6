"""When a server counts as ready, and when it has failed, also while it downloads its model itself."""

from __future__ import annotations

import asyncio
import shlex
import socket
import ssl
import threading
from typing import TYPE_CHECKING, Any

import pytest
from tests.support.certificate import CERTIFICATE
from tests.support.misbehaving_servers import HEALTHY
from tests.support.names import FIRST, SECOND, black_hole, port_of, two
from tests.support.ports import free_port
from tests.support.supervisor_rig import PYTHON, command_for, model
from tests.support.waiting import come_true

from hotseat.identifiers import Address
from hotseat.model_servers import readiness
from hotseat.model_servers.readiness import Readiness, downloads_itself, pause
from hotseat.net import http_client
from hotseat.net.happy_eyeballs import Connector
from hotseat.scheduling.events import UpstreamFailed
from hotseat.tasks import Tasks

if TYPE_CHECKING:
    from pathlib import Path

    from tests.support.supervisor_rig import SupervisorRig

    from hotseat.catalog.spec import ModelSpec

SOON_S = 30.0
"""On a busy machine; the kernel tries for two minutes to reach an address that swallows packets."""


async def test_localhost_is_asked_on_both_its_addresses(rig: SupervisorRig) -> None:
    """A server on ::1 only is found, and its address is the one that answered."""
    ready = await rig.ready(model("speaks_ipv6_only", proxy="http://localhost:${PORT}"))

    assert ready.upstream.address.host == "::1"


async def test_localhost_becomes_the_address_that_answered(rig: SupervisorRig) -> None:
    """Requests need not look up the name again."""
    ready = await rig.ready(model("healthy", proxy="http://localhost:${PORT}"))

    assert ready.upstream.address.host == "127.0.0.1"


@pytest.mark.parametrize("check_endpoint", ["/health", None], ids=["asked", "only connected"])
async def test_a_dead_address_of_a_name_does_not_hide_the_server(check_endpoint: str | None) -> None:
    """Each question reaches the address that lives, though another one comes first and swallows packets."""
    async with Healthy() as server:
        with black_hole(FIRST, server.port):
            address = Address("box.test", server.port)
            found = await asyncio.wait_for(Readiness(address, check_endpoint, Connector(two)).reached(), SOON_S)

    assert found == address


async def test_a_unix_socket_is_asked_like_a_port(rig: SupervisorRig, tmp_path: Path) -> None:
    path = str(tmp_path / "s")
    ready = await rig.ready(model("", argv=command_for("on_unix_socket", path), proxy=f"unix:{path}"))

    assert ready.upstream.address.unix_path == path


async def test_a_prefix_goes_in_front_of_the_question(rig: SupervisorRig) -> None:
    """A server that lives under a path is asked there."""
    spec = model("knows_one_path", "/inner/ping", proxy="http://127.0.0.1:${PORT}/inner", check_endpoint="/ping")
    ready = await rig.ready(spec)

    assert ready.upstream.address.prefix == "/inner"


async def test_without_a_question_an_open_port_is_enough(rig: SupervisorRig) -> None:
    """`checkEndpoint: none` for servers that have nothing to ask."""
    await rig.ready(model("hangs_health", check_endpoint=None))

    assert "timed out" in await rig.failed(model("binds_only", check_endpoint=None, health_check_timeout_s=0.3))


@pytest.mark.parametrize("check_endpoint", ["/health", None], ids=["asked", "only connected"])
async def test_a_connection_to_itself_is_no_server(check_endpoint: str | None) -> None:
    """The kernel may choose the server's port for our own end of the connection, which then connects to itself."""
    port = free_port()
    server = Readiness(Address("127.0.0.1", port), check_endpoint, ConnectsToItself())
    with pytest.raises(TimeoutError):
        await asyncio.wait_for(server.reached(), 0.3)

    assert server.last_answer == "nothing is listening there"


async def test_a_port_that_is_only_bound_is_not_ready(rig: SupervisorRig) -> None:
    """The failure says that nobody listened."""
    spec = model("binds_only", health_check_timeout_s=60.0)
    error = await rig.failed_at_its_time(spec, lambda: rig.lines_with("reading"))

    assert "nothing is listening there" in error


@pytest.mark.parametrize(
    ("behaviour", "reason"),
    [
        ("never_ready", "the last response was 503"),
        ("hangs_after_503", "the last response was 503"),
        ("sends_elsewhere", "the last response was 302"),
        ("answers_204", "the last response was 204"),
        ("talks_nonsense", "it sent an invalid response (the response was not HTTP)"),
    ],
)
async def test_only_200_is_ready(rig: SupervisorRig, behaviour: str, reason: str) -> None:
    """Redirects are not followed, other good answers do not count, and the failure says what came instead."""
    error = await rig.failed_at_its_time(model(behaviour, health_check_timeout_s=60.0), rig.has_taken_an_answer)

    assert "health check timed out after 60 seconds" in error
    assert reason in error


@pytest.mark.parametrize("probe_s", [0.1, 60.0], ids=["questions end", "the first question lasts"])
async def test_a_server_that_never_answers_fails_at_its_time(
    rig: SupervisorRig, monkeypatch: pytest.MonkeyPatch, probe_s: float
) -> None:
    """A pending question does not outlast the health check, and the error does not say that nothing listened."""
    monkeypatch.setattr(readiness, "PROBE_TIMEOUT_S", probe_s)
    spec = model("hangs_health", health_check_timeout_s=30.0)
    error = await rig.failed_at_its_time(spec, lambda: rig.lines_with("asked"))

    assert "it accepted the connection, but did not answer the health check" in error


async def test_one_question_without_an_answer_is_asked_again(
    rig: SupervisorRig, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each question has a time limit of its own."""
    monkeypatch.setattr(readiness, "PROBE_TIMEOUT_S", 0.1)
    ready = await rig.ready(model("hangs_health_once"))

    assert ready.upstream.pid


async def test_a_certificate_that_nobody_trusts_is_no_answer(rig: SupervisorRig, tmp_path: Path) -> None:
    """https is verified: the relay would refuse this server too."""
    spec = model("speaks_tls", certificate_in(tmp_path), proxy="https://localhost:${PORT}", health_check_timeout_s=60.0)
    error = await rig.failed_at_its_time(spec, lambda: len(rig.lines_with("no handshake")) > 1)

    assert "certificate verify failed" in error


async def test_https_is_asked_by_name(rig: SupervisorRig, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A certificate names a host, so the address keeps it."""
    path = certificate_in(tmp_path)
    monkeypatch.setattr(http_client, "tls_context", lambda: ssl.create_default_context(cafile=path))
    ready = await rig.ready(model("speaks_tls", path, proxy="https://localhost:${PORT}"))

    assert str(ready.upstream.address).startswith("https://localhost:")


async def test_the_end_of_a_server_ends_the_questions(rig: SupervisorRig) -> None:
    """A server that is gone is no longer polled."""
    await rig.failed(model("dies_while_loading"))

    assert not [task for task in asyncio.all_tasks() if task.get_name().startswith("ask ")]


@pytest.mark.parametrize(("elapsed", "expected"), [(0, 0.005), (0.2, 0.005), (1, 0.02), (5, 0.1), (60, 0.25)])
def test_questions_become_rarer(elapsed: float, expected: float) -> None:
    """2 % of the time elapsed, between 5 and 250 ms."""
    assert pause(elapsed) == pytest.approx(expected)


class ConnectsToItself(Connector):
    async def way_to(self, address: Address) -> dict[str, Any]:
        sock = socket.socket()
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        sock.bind((address.host, address.port))
        sock.connect((address.host, address.port))
        return {"sock": sock}


class Healthy:
    """A server on the second address that answers 200 to everybody."""

    async def __aenter__(self) -> Healthy:
        self._server = await asyncio.start_server(self._answer, SECOND, 0)
        self.port = port_of(self._server.sockets[0])
        return self

    async def __aexit__(self, *problem: object) -> None:
        self._server.close()
        await self._server.wait_closed()

    async def _answer(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readline()
        writer.write(HEALTHY)
        writer.close()


def certificate_in(folder: Path) -> str:
    path = folder / "certificate.pem"
    path.write_text(CERTIFICATE)
    return str(path)


HF = ("llama-server", "-hf", "org/repo")
TIMEOUT_S = 1.0


@pytest.mark.parametrize("is_in_shell", [False, True], ids=["the server itself", "a shell that started it"])
async def test_a_download_outlasts_the_health_timeout(rig: SupervisorRig, tmp_path: Path, is_in_shell: bool) -> None:
    """As long as it writes, the server gets the same time again; then it becomes ready as usual."""
    file = str(tmp_path / "model.gguf")
    spec = model("downloads_first", file, *HF, health_check_timeout_s=TIMEOUT_S)
    if is_in_shell:
        spec = in_shell(f"{shlex.join((*command_for('downloads_first', '${PORT}', file), *HF))}; true")
    loop, tasks = asyncio.get_running_loop(), Tasks()
    began = loop.time()
    starting = tasks.start(rig.ready(spec), "start")
    await come_true(lambda: loop.time() - began > 3 * TIMEOUT_S)
    assert not starting.done()
    (tmp_path / "DONE").touch()
    ready = await starting

    assert await rig.end(ready)


async def test_a_server_that_downloads_waits_for_its_disk(rig: SupervisorRig, monkeypatch: pytest.MonkeyPatch) -> None:
    """The kernel answers no question about it: a thread waits, and the event loop does not."""
    responds, waiting = threading.Event(), list[int]()

    def wait(pid: int) -> dict[int, int]:
        assert threading.current_thread() is not threading.main_thread()
        waiting.append(pid)
        responds.wait()
        return {}

    monkeypatch.setattr(readiness, "moved", wait)
    start = rig.next_start(model("stops_downloading", *HF))
    starting = Tasks().start(rig.supervisor.start(start), "start")
    await come_true(lambda: waiting)
    await rig.stop(start)
    responds.set()

    assert isinstance(await starting, UpstreamFailed)


async def test_a_download_that_stands_still_fails(rig: SupervisorRig) -> None:
    """The server is stopped after its time, as any other."""
    error = await rig.failed(model("stops_downloading", *HF, health_check_timeout_s=TIMEOUT_S))

    assert "health check timed out after 1 seconds" in error


async def test_a_shell_that_starts_its_server_again_and_again_fails(rig: SupervisorRig) -> None:
    """Each process reads its libraries, and none of them lives from one look to the next."""
    crash = shlex.join((*PYTHON, "-c", "open('/dev/null', 'wb').write(bytes(4 << 20))", *HF))
    error = await rig.failed(in_shell(f"while :; do {crash}; done"))

    assert "health check timed out after 1 seconds" in error


def in_shell(script: str) -> ModelSpec:
    return model("", argv=("/bin/sh", "-c", script), health_check_timeout_s=TIMEOUT_S)


async def test_writing_does_not_excuse_a_server_that_names_a_file(rig: SupervisorRig, tmp_path: Path) -> None:
    """Its size is known, so its time is."""
    other = ("llama-server", "-m", "m.gguf")
    spec = model("downloads_first", str(tmp_path / "log"), *other, health_check_timeout_s=TIMEOUT_S)

    assert "health check timed out" in await rig.failed(spec)


@pytest.mark.parametrize(
    ("argv", "env", "does"),
    [
        (("llama-server", "-hf", "org/repo:Q8_0"), {}, True),
        (("sh", "-c", "exec llama-server --hf-repo org/repo"), {}, True),
        (("docker", "run", "ghcr.io/ggml-org/llama.cpp:server", "--model-url", "https://host/m.gguf"), {}, True),
        (("llama-server",), {"LLAMA_ARG_HF_REPO": "org/repo"}, True),
        (("llama-server", "-m", "m.gguf"), {}, False),
        (("some-server", "-hf", "org/repo"), {}, False),
    ],
)
def test_commands_that_download(argv: tuple[str, ...], env: dict[str, str], does: bool) -> None:
    """Also through a shell, a container and the environment."""
    assert downloads_itself(argv, env) is does
