"""Operators' calls to other hosts, through the real relay of that host."""

from __future__ import annotations

import asyncio
import json
import ssl
import time
from datetime import UTC, datetime
from email.utils import formatdate
from typing import TYPE_CHECKING

import pytest
from tests.support.certificate import CERTIFICATE

from hotseat.errors import HostUnresponsive, NotRunning
from hotseat.fleet.member import PathState
from hotseat.fleet.other_hosts import FleetClient, HostHttp
from hotseat.fleet.proofs import FleetSecret, Signer
from hotseat.identifiers import Address, HostName, ModelName
from hotseat.net import http_client
from hotseat.settings import Access, ApiKey, Fleet, Settings
from hotseat.tasks import Tasks

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable
    from pathlib import Path

    from tests.support.relay_rig import RelayRig

    OpenRig = Callable[..., Awaitable[RelayRig]]

MODEL = ModelName("org/model")
ENDS = datetime(2126, 10, 22, 1, 7, 21, tzinfo=UTC)
"""Of the certificate for tests."""
B = HostName("b")
HEALTH = b'{"status": "ok", "models": {}}'
US = FleetClient(HostHttp(HostName("a"), Signer(FleetSecret(["hush"]))))
WITHOUT_SECRET = FleetClient(HostHttp(HostName("a"), Signer(FleetSecret(["guessed"]))))


async def keyed(open_rig: OpenRig) -> tuple[RelayRig, str]:
    """A host of the fleet that lets in nobody without a key."""
    fleet = Fleet(("nats://x",), HostName("b"), secrets=("hush",))
    rig = await open_rig(settings=Settings(fleet=fleet, access=Access(api_keys=(ApiKey("ours"),))))
    return rig, f"http://127.0.0.1:{rig.port}"


@pytest.fixture
async def untrusted(tmp_path: Path) -> AsyncIterator[Address]:
    """A host with a certificate that nobody here knows."""
    (tmp_path / "certificate.pem").write_text(CERTIFICATE)
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    context.load_cert_chain(tmp_path / "certificate.pem")
    async with await asyncio.start_server(lambda *_: None, "127.0.0.1", 0, ssl=context) as server:
        yield Address("localhost", server.sockets[0].getsockname()[1], tls=True)


@pytest.fixture
async def trusted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Address]:
    """A host whose certificate ends in a century, and whose clock is an hour ahead."""
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    (tmp_path / "certificate.pem").write_text(CERTIFICATE)
    context.load_cert_chain(tmp_path / "certificate.pem")
    trusting = ssl.create_default_context(cafile=str(tmp_path / "certificate.pem"))
    monkeypatch.setattr(http_client, "tls_context", lambda: trusting)

    async def greet(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        date = formatdate(time.time() + 3600, usegmt=True)
        writer.write(f"HTTP/1.1 200 OK\r\nDate: {date}\r\n\r\n".encode() + HEALTH)
        writer.close()

    async with await asyncio.start_server(greet, "127.0.0.1", 0, ssl=context) as server:
        yield Address("localhost", server.sockets[0].getsockname()[1], tls=True)


def answer(status: str, **said: str) -> bytes:
    return response(status, json.dumps(said).encode())


def response(status: str, body: bytes) -> bytes:
    return b"HTTP/1.1 %b\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n%b" % (
        status.encode(),
        len(body),
        body,
    )


async def test_a_host_reads_the_details_of_a_model_from_another(open_rig: OpenRig) -> None:
    """A host with the fleet's secret reads a model's details from another host's own view."""
    rig, url = await keyed(open_rig)
    asking = Tasks().start(US.model_details(B, url, MODEL), "ask")
    call = await rig.management.call()
    await call.say(answer("200 OK", why="it was asked for"))

    assert await asking == {"why": "it was asked for"}
    assert call.request.first_line.split()[:2] == ["GET", "/hotseat/models/org%2Fmodel?local=true"]


async def test_a_host_without_the_secret_gets_nothing(open_rig: OpenRig) -> None:
    """Without the secret, a question and a stop are errors that say what is missing."""
    _, url = await keyed(open_rig)

    with pytest.raises(HostUnresponsive, match=r"b responded 403: .*fleet\.secret"):
        await WITHOUT_SECRET.model_details(B, url, MODEL)
    with pytest.raises(HostUnresponsive, match=r"responded 403: .*fleet\.secret"):
        await WITHOUT_SECRET.stop(B, url, MODEL)


async def test_a_host_is_asked_to_stop_a_model(open_rig: OpenRig) -> None:
    """A stop returns, or raises NotRunning for a 409 and HostSilent for a 500."""
    rig, url = await keyed(open_rig)
    outcomes = [
        answer("200 OK", message="it has stopped"),
        answer("409 Conflict", error="it is not running"),
        answer("500 Internal Server Error", error="a bug"),
    ]
    stopped: list[object] = []
    for outcome in outcomes:
        asking = Tasks().start(US.stop(B, url, MODEL), "ask")
        call = await rig.management.call()
        assert call.request.first_line.split()[:2] == ["DELETE", "/upstream/org%2Fmodel"]
        await call.say(outcome)
        try:
            stopped.append(await asking)
        except (NotRunning, HostUnresponsive) as problem:
            stopped.append((type(problem), problem.message))

    assert stopped == [
        None,
        (NotRunning, "it is not running"),
        (HostUnresponsive, f"{url} responded 500: a bug"),
    ]


async def test_what_is_no_hotseat_says_nothing(open_rig: OpenRig) -> None:
    """A response that is not hotseat's, and a closed port, give no details but the problem; so does a stop."""
    rig, url = await keyed(open_rig)
    asking = Tasks().start(US.model_details(B, url, MODEL), "ask")
    await (await rig.management.call()).say(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n[]")

    with pytest.raises(HostUnresponsive, match=r"b did not answer \(the response did not come from a hotseat server"):
        await asking
    with pytest.raises(HostUnresponsive, match=r"b did not answer .*[Rr]efused"):
        await US.model_details(B, "http://127.0.0.1:9", MODEL)
    with pytest.raises(HostUnresponsive, match="did not respond"):
        await US.stop(B, "http://127.0.0.1:9", MODEL)


async def test_a_host_whose_certificate_is_not_trusted(untrusted: Address) -> None:
    """The problem is named wherever the host is asked, and a host that answers has none."""
    problem = "its certificate is not trusted: self-signed certificate"
    url = f"https://localhost:{untrusted.port}"

    assert await US.path_to(untrusted) == PathState(problem)
    with pytest.raises(HostUnresponsive, match=rf"did not respond \({problem}\)"):
        await US.stop(B, url, MODEL)
    with pytest.raises(HostUnresponsive, match=rf"b did not answer \({problem}\)"):
        await US.model_details(B, url, MODEL)


async def test_the_certificate_and_the_clock_of_a_host_that_answers(trusted: Address) -> None:
    """The end of the certificate is exact, and the clock within a few seconds."""
    state = await US.path_to(trusted)

    assert (state.problem, state.certificate_ends) == ("", ENDS.timestamp())
    assert state.clock_ahead_s is not None
    assert abs(state.clock_ahead_s - 3600) <= 10


async def test_a_host_is_asked_whether_it_answers(open_rig: OpenRig) -> None:
    """There is no problem if it does, and the reason if it does not."""
    rig, _ = await keyed(open_rig)
    asking = Tasks().start(US.path_to(Address("127.0.0.1", rig.port)), "ask")
    await (await rig.management.call()).say(response("200 OK", HEALTH))

    assert await asking == PathState()
    assert "refused" in (await US.path_to(Address("127.0.0.1", 9))).problem.lower()


@pytest.mark.parametrize(
    ("status", "body"),
    [
        ("504 Gateway Timeout", b""),
        ("502 Bad Gateway", HEALTH),
        ("200 OK", b"<html>Welcome</html>"),
        ("200 OK", b"[]"),
        ("200 OK", b'{"status": "ok"}'),
    ],
)
async def test_a_proxy_or_another_program_answers_for_a_host(open_rig: OpenRig, status: str, body: bytes) -> None:
    """That is no answer of the host, so requests do not wait for it there; a model server says nothing of models."""
    rig, _ = await keyed(open_rig)
    asking = Tasks().start(US.path_to(Address("127.0.0.1", rig.port)), "ask")
    await (await rig.management.call()).say(response(status, body))

    assert await asking == PathState(f"a response with status {status[:3]}, but not that of a healthy hotseat")
