"""Names with several addresses: the one that answers is found and remembered."""

from __future__ import annotations

import asyncio
import os
import socket
import ssl
import threading
from typing import TYPE_CHECKING, Any

import pytest
import uvloop
from tests.support.certificate import CERTIFICATE
from tests.support.names import FIRST, SECOND, black_hole, has_caller, listener, port_of, two
from tests.support.relay_rig import get
from tests.support.transport import DEADLINE_S, within
from tests.support.waiting import come_true

from hotseat.catalog.spec import DEFAULT_TIMEOUTS, Timeouts
from hotseat.identifiers import Address
from hotseat.net import happy_eyeballs
from hotseat.net.happy_eyeballs import Connector, Place, look_up
from hotseat.relay.upstream.pool import Pool
from hotseat.tasks import Tasks

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from pathlib import Path

    from tests.support.relay_rig import RelayRig

    from hotseat.relay.upstream.connection import UpstreamConnection


async def reached(connector: Connector, port: int) -> str:
    """The address at the other end."""
    with await within(DEADLINE_S, connector.connect("box.test", port)) as sock:
        return str(sock.getpeername()[0])


async def test_an_address_that_refuses_is_passed_over() -> None:
    """If the first address refuses, the second one is used."""
    with listener(SECOND) as second:
        assert await reached(Connector(two), port_of(second)) == SECOND


async def test_an_address_that_swallows_packets_is_passed_over() -> None:
    """If the first address does not answer, the second one is used."""
    with black_hole(FIRST) as port, listener(SECOND, port):
        assert await reached(Connector(two), port) == SECOND


async def test_the_first_address_is_preferred() -> None:
    """If the first address answers, the second one is not tried."""
    with listener(FIRST) as first, listener(SECOND, port_of(first)) as second:
        assert await reached(Connector(two), port_of(first)) == FIRST
        assert not has_caller(second)


async def test_the_address_that_answered_is_tried_first() -> None:
    """The address that answered last time is tried first."""
    connector = Connector(two)
    with listener(SECOND) as second:
        await reached(connector, port_of(second))
        with listener(FIRST, port_of(second)) as first:
            assert await reached(connector, port_of(second)) == SECOND
            assert not has_caller(first)


async def test_an_address_that_answered_may_fall_silent() -> None:
    """If the address that answered last time is silent, the others are tried."""
    connector = Connector(two)
    with listener(SECOND) as second:
        port = port_of(second)
        await reached(connector, port)
    with black_hole(SECOND, port), listener(FIRST, port):
        assert await reached(connector, port) == FIRST


@pytest.mark.parametrize("host", ["box.test", SECOND])
async def test_nothing_waits_for_a_full_packet(host: str) -> None:
    """Connections have TCP_NODELAY, for names and for addresses."""
    with listener(SECOND) as second:
        way = await Connector(two).way_to(Address(host, port_of(second)))
        transport, _ = await asyncio.get_running_loop().create_connection(asyncio.Protocol, **way)
        no_delay = transport.get_extra_info("socket").getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY)
        transport.abort()

    assert no_delay


async def test_one_reason_is_reported_where_all_addresses_fail_alike() -> None:
    """If all addresses fail for the same reason, it is reported once."""
    with listener(SECOND) as closed:
        port = port_of(closed)
    with pytest.raises(ConnectionRefusedError, match=r"Connection refused$"):
        await reached(Connector(two), port)


async def test_each_reason_is_reported_where_they_differ() -> None:
    """If the reasons differ, each is reported with its address."""

    async def broadcast_too(_: str, port: int) -> list[Place]:
        return [Place(socket.AF_INET, ("255.255.255.255", port)), Place(socket.AF_INET, (SECOND, port))]

    with listener(SECOND) as closed:
        port = port_of(closed)
    with pytest.raises(
        OSError, match=r"^255\.255\.255\.255: Network is unreachable; 127\.0\.0\.1: Connection refused$"
    ):
        await reached(Connector(broadcast_too), port)


# The pool


class Outcome:
    """What became of a call to `pool.connect`."""

    def __init__(self, pool: Pool, address: Address, timeouts: Timeouts = DEFAULT_TIMEOUTS) -> None:
        self.connection: UpstreamConnection | None = None
        self.problem = ""
        self.task = pool.connect(address, self._connected, self._failed, timeouts)

    def _connected(self, connection: UpstreamConnection) -> None:
        self.connection = connection
        connection.close()

    def _failed(self, problem: str) -> None:
        self.problem = problem


def open_files() -> int:
    return len(os.listdir("/proc/self/fd"))


async def test_the_pool_dials_every_address_of_a_name() -> None:
    """The pool connects to the second address if the first one does not answer."""
    pool = Pool(Connector(two))
    with black_hole(FIRST) as port, listener(SECOND, port):
        outcome = Outcome(pool, Address("box.test", port))
        await within(DEADLINE_S, outcome.task)
        await pool.aclose()

    assert outcome.connection
    assert outcome.problem == ""


def test_a_reason_is_the_systems_on_either_loop() -> None:
    """Plain asyncio has words of its own for a connection that is refused to an address."""
    with listener(FIRST) as closed:
        address = Address(FIRST, port_of(closed))

    async def said() -> str:
        pool = Pool()
        outcome = Outcome(pool, address)
        await within(DEADLINE_S, outcome.task)
        await pool.aclose()
        return outcome.problem

    for new_loop in (asyncio.new_event_loop, uvloop.new_event_loop):
        with asyncio.Runner(loop_factory=new_loop) as runner:
            assert runner.run(said()) == f"no connection to {address}: Connection refused"


async def test_all_addresses_together_have_one_time_limit() -> None:
    """timeouts.connect applies to all addresses together, and no socket stays open."""
    pool = Pool(Connector(two))
    before = open_files()
    with black_hole(FIRST) as port, black_hole(SECOND, port):
        outcome = Outcome(pool, Address("box.test", port), Timeouts(connect_s=0.4))
        await within(DEADLINE_S, outcome.task)
    await pool.aclose()

    assert outcome.problem == f"no connection to http://box.test:{port} within 0.4 s"
    assert open_files() == before


async def test_a_connection_that_nobody_waits_for_leaves_nothing_open() -> None:
    """A cancelled connection attempt leaves no socket open."""
    pool = Pool(Connector(two))
    with black_hole(FIRST) as port, black_hole(SECOND, port):
        before = open_files()
        outcome = Outcome(pool, Address("box.test", port))
        await come_true(lambda: open_files() == before + 2)
        outcome.task.cancel()
        await pool.aclose()

        assert open_files() == before


@pytest.fixture
async def asked(monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[list[str]]:
    """What name servers were asked for; those of `slow…` do not answer before the end of the test."""
    names: list[str] = []
    may_answer = threading.Event()
    real = socket.getaddrinfo

    def ask(host: str, *rest: Any, **known: Any) -> list[Any]:
        names.append(host)
        if host.startswith("slow"):
            may_answer.wait()
        return real("127.0.0.1", *rest, **known)

    monkeypatch.setattr(socket, "getaddrinfo", ask)
    yield names
    may_answer.set()
    assert await come_true(lambda: not happy_eyeballs._lookups)


async def test_name_servers_that_do_not_answer(asked: list[str]) -> None:
    """Lookups of other names do not wait for them; whoever gives up leaves no more threads when it asks again."""
    tasks = Tasks()
    names = [f"slow{number}" for number in range(happy_eyeballs.MOST_LOOKUPS - 1)]
    for number, name in enumerate((*names, *names)):
        tasks.start(look_up(name, number), "look up")
    assert await come_true(lambda: len(asked) == len(names))
    await tasks.aclose()
    again = [tasks.start(look_up(name, 80), "look up") for name in names]
    found = await within(DEADLINE_S, look_up("quick.test", 8080))

    assert found == [Place(socket.AF_INET, ("127.0.0.1", 8080))]
    assert asked == [*names, "quick.test"]
    assert not any(task.done() for task in again)
    await tasks.aclose()


async def test_more_names_than_may_be_looked_up_at_once(asked: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    """They wait for a free place, and no thread is started."""
    monkeypatch.setattr(happy_eyeballs, "MOST_LOOKUPS", 1)
    tasks = Tasks()
    many = [look_up(f"quick{number}.test", 80) for number in range(20)]
    assert len(await within(DEADLINE_S, asyncio.gather(*many))) == 20
    tasks.start(look_up("slow", 80), "look up")
    assert await come_true(lambda: asked[-1] == "slow")
    with pytest.raises(TimeoutError):
        await within(0.1, look_up("quick.test", 80))

    assert asked[-1] == "slow"
    await tasks.aclose()


async def test_a_name_is_looked_up_by_the_machine(rig: RelayRig) -> None:
    """An upstream on `localhost` is reached, and its Host is the name."""
    rig.launcher.addresses["alpha"] = rig.alpha.address._replace(host="localhost")
    asked, answered = await rig.exchange(get())

    assert asked["Host"] == f"localhost:{rig.alpha.address.port}"
    assert answered.status == 200


async def test_an_unknown_host_name_is_answered_502(rig: RelayRig, impatient: None) -> None:
    """An unknown host name is a 502 that names the address."""
    rig.launcher.addresses["alpha"] = Address("nobody.invalid", 80)
    answered = await rig.refusal(get())

    assert answered.status == 502
    assert "no connection to http://nobody.invalid:80" in answered.body.decode()


async def test_a_certificate_is_checked_against_the_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The certificate must be for the configured name, whichever address answered."""
    certificate = tmp_path / "certificate.pem"
    certificate.write_text(CERTIFICATE)
    monkeypatch.setenv("SSL_CERT_FILE", str(certificate))
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate)
    server = await asyncio.get_running_loop().create_server(asyncio.Protocol, SECOND, 0, ssl=context)
    pool, port = Pool(Connector(two)), port_of(server.sockets[0])
    good, bad = (Outcome(pool, Address(name, port, tls=True)) for name in ("localhost", "box.test"))
    await within(DEADLINE_S, asyncio.gather(good.task, bad.task))
    await pool.aclose()
    server.close()

    assert good.connection
    assert "Hostname mismatch" in bad.problem
