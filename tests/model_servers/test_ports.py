"""Ports are leased once at a time and are free when they are leased."""

from __future__ import annotations

import errno
import socket
from typing import TYPE_CHECKING

import pytest
from tests.support.ports import free_port
from tests.support.supervisor_rig import command_for, model

from hotseat.model_servers import ports as ports_module
from hotseat.model_servers.ports import PortLease, Ports

if TYPE_CHECKING:
    from tests.support.supervisor_rig import SupervisorRig


def test_a_leased_port_is_free_and_held() -> None:
    """No process can take it while it is held, and its server can as soon as it is not."""
    lease = Ports().lease()
    with pytest.raises(OSError) as refused, socket.socket() as rival:
        rival.bind(("127.0.0.1", lease.port))
    lease.vacate()

    assert refused.value.errno == errno.EADDRINUSE
    socket.create_server(("127.0.0.1", lease.port)).close()


def test_a_port_is_not_leased_twice() -> None:
    """Also not while its server has not taken it yet."""
    ports = Ports()
    first = ports.lease()
    first.vacate()
    second = ports.lease(preferred=first.port)
    second.release()
    first.release()
    third = ports.lease(preferred=first.port)
    third.release()

    assert second.port > first.port
    assert third.port == first.port


def test_ports_are_counted_from_the_preferred_one() -> None:
    """Those in use are skipped."""
    ports = Ports()
    with socket.create_server(("127.0.0.1", 0)) as taken:
        preferred = taken.getsockname()[1]
        lease = ports.lease(preferred)
        lease.release()

    assert preferred < lease.port < preferred + 100


def test_the_fixed_port_of_a_server_is_never_leased() -> None:
    """Also not while it does not run: it could not start any more. A reload may add such a port."""
    fixed: set[int] = set()
    ports = Ports(lambda: frozenset(fixed))
    preferred = free_port()
    first = ports.lease(preferred)
    first.release()
    fixed.add(first.port)
    second = ports.lease(preferred)
    second.release()

    assert second.port > first.port


def test_connections_that_linger_do_not_keep_the_next_server_away() -> None:
    """The last server closed a connection a moment ago, as it does at every swap."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        client = socket.create_connection(("127.0.0.1", port))
        server.accept()[0].close()
        client.close()
    lease = Ports().lease(port)
    lease.release()

    assert lease.port == port


def test_when_no_port_is_left_it_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        monkeypatch.setattr(ports_module, "LAST", port)
        with pytest.raises(OSError, match=f"no free port at or above {port}"):
            Ports().lease(port)


async def test_a_port_comes_back_with_the_end_of_its_server(rig: SupervisorRig) -> None:
    """The same model gets the same number again."""
    preferred = free_port()
    first = await rig.ready(model("healthy", preferred_port=preferred))
    second = await rig.ready(model("healthy", preferred_port=preferred))
    await rig.end(first)
    third = await rig.ready(model("healthy", preferred_port=preferred))

    assert first.upstream.address.port == third.upstream.address.port == preferred
    assert second.upstream.address.port > preferred


async def test_who_has_a_port(rig: SupervisorRig) -> None:
    """The model whose server was given it, until that ends; a server that chose its port itself was given none."""
    ready = await rig.ready(model("healthy"))
    ports = {ready.upstream.address.port, free_port()}
    own = free_port()
    fixed = model("healthy", argv=command_for("healthy", str(own)), proxy=f"http://127.0.0.1:{own}")
    await rig.ready(fixed)
    before = rig.supervisor.displaced({*ports, own})
    await rig.end(ready)

    assert (before, rig.supervisor.displaced({*ports, own})) == (("qwen",), ())


async def test_a_port_comes_back_when_nothing_was_started(rig: SupervisorRig) -> None:
    preferred = free_port()
    await rig.failed(model("", argv=("llama-servr", "${PORT}"), preferred_port=preferred))
    ready = await rig.ready(model("healthy", preferred_port=preferred))

    assert ready.upstream.address.port == preferred


@pytest.mark.parametrize(("host", "tried"), [("localhost", "127.0.0.1"), ("0.0.0.0", "0.0.0.0")])
async def test_a_fixed_port_that_is_answered_already_is_not_started_on(
    rig: SupervisorRig, host: str, tried: str
) -> None:
    """The failure names the process there; nothing was started."""
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        spec = model("", argv=command_for("healthy", str(port)), proxy=f"http://{host}:{port}")
        error = await rig.failed(spec)

    assert f"http://{tried}:{port} is already in use by another process, " in error
    assert "(pid " in error
    assert rig.output.written == 0


async def test_a_server_that_lost_its_port_is_started_on_another(
    rig: SupervisorRig, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Between the end of our hold and the server's own another process may be quicker: that passes."""
    rivals: list[socket.socket] = []
    vacate = PortLease.vacate

    def vacate_for_a_rival(lease: PortLease) -> None:
        vacate(lease)
        if not rivals:
            rivals.append(socket.create_server(("127.0.0.1", lease.port)))

    monkeypatch.setattr(PortLease, "vacate", vacate_for_a_rival)
    ready = await rig.ready(model("healthy"))
    [rival] = rivals
    taken = rival.getsockname()[1]
    rival.close()

    assert ready.upstream.address.port != taken


async def test_a_server_that_fails_for_a_reason_of_its_own_is_started_once(rig: SupervisorRig) -> None:
    """Its port is free: it would fail again."""
    await rig.failed(model("dies_while_loading"))

    assert len([line for line in rig.tail(50) if "failed to load model" in line]) == 1
