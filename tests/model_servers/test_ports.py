"""Ports: how they are leased, and which process listens on one."""

from __future__ import annotations

import asyncio
import errno
import os
import socket
from typing import TYPE_CHECKING

import pytest
from tests.support.misbehaving_servers import HEALTHY
from tests.support.ports import free_port
from tests.support.supervisor_rig import command_for, model

from hotseat.identifiers import Address
from hotseat.model_servers import ports as ports_module
from hotseat.model_servers.os_processes import children
from hotseat.model_servers.ports import PortLease, Ports, is_of_launch, listener_of, name_of, owner_of

if TYPE_CHECKING:
    from pathlib import Path

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


NOBODY = 2**22 + 1
"""A pid above the highest."""


@pytest.mark.parametrize("host", ["127.0.0.1", "0.0.0.0"])
async def test_another_process_that_took_the_port_does_not_become_ready(rig: SupervisorRig, host: str) -> None:
    """It answers 200 like a server of ours, but it is not: the start fails and names it."""
    port = free_port()
    spec = model("", argv=command_for("never_listens", str(port)), proxy=f"http://{host}:{port}")
    starting = asyncio.get_running_loop().create_task(rig.failed(spec))
    await rig.said("reading")
    async with await asyncio.start_server(answer, "127.0.0.1", port):
        error = await starting

    other = f"{name_of(os.getpid())} (pid {os.getpid()})"
    assert f"http://{host}:{port} is in use by another process, {other}" in error


async def test_a_server_started_by_a_script_is_ours(rig: SupervisorRig) -> None:
    """The child that has the port is shown; what is signalled stays what was started."""
    ready = await rig.ready(model("listens_in_a_child"))
    upstream = ready.upstream
    (child,) = children(upstream.pid or 0)

    assert listener_of(upstream.address, upstream.pid or 0, "") == (child, True)
    assert (upstream.listener, upstream.shown_pid) == (child, child)
    assert rig.supervisor.pids() == {ready.model: upstream.pid}


async def test_a_server_without_a_script_is_shown_itself(rig: SupervisorRig) -> None:
    upstream = (await rig.ready(model("healthy"))).upstream

    assert upstream.listener == upstream.shown_pid == upstream.pid


async def test_the_engine_of_a_container_is_not_foreign(rig: SupervisorRig, tmp_path: Path) -> None:
    """The owner can be checked only if the server runs in a visible process."""
    docker = tmp_path / "docker"
    docker.write_text("#!/bin/sh\necho running\nsleep 1000 &\nwait\n")
    docker.chmod(0o755)
    port = free_port()
    starting = asyncio.get_running_loop().create_task(
        rig.ready(model("", argv=(str(docker), "run"), proxy=f"http://127.0.0.1:{port}"))
    )
    await rig.said("running")
    async with await asyncio.start_server(answer, "127.0.0.1", port):
        ready = await starting

    assert name_of(ready.upstream.pid or 0) == "docker"


@pytest.mark.parametrize("host", ["127.0.0.1", "::1"])
def test_the_owner_of_a_port_is_found(host: str) -> None:
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    with socket.create_server((host, 0), family=family) as server:
        assert owner_of(host, server.getsockname()[1]) == os.getpid()


@pytest.mark.parametrize("wildcard", ["0.0.0.0", "::"])
def test_a_listener_on_all_addresses_owns_the_loopback_too(wildcard: str) -> None:
    dual = ":" in wildcard
    family = socket.AF_INET6 if dual else socket.AF_INET
    with socket.create_server((wildcard, 0), family=family, dualstack_ipv6=dual) as server:
        assert owner_of("127.0.0.1", server.getsockname()[1]) == os.getpid()


def test_a_port_that_nobody_listens_on_has_no_owner() -> None:
    with socket.socket() as held:
        held.bind(("127.0.0.1", 0))

        assert owner_of("127.0.0.1", held.getsockname()[1]) is None


def test_other_machines_and_names_are_not_looked_into() -> None:
    assert listener_of(Address("192.0.2.1", 80), os.getpid(), "") == (None, True)
    assert listener_of(Address("gpu-box", 80), os.getpid(), "") == (None, True)


def test_a_listener_is_found_by_the_name_of_this_machine(monkeypatch: pytest.MonkeyPatch) -> None:
    """A process of somebody else behind it is foreign, as it is behind a number."""
    found = [(socket.AF_INET, socket.SOCK_STREAM, 0, "", ("127.0.0.1", 0))]
    monkeypatch.setattr(socket, "gethostname", lambda: "workshop")
    monkeypatch.setattr(socket, "getaddrinfo", lambda *_, **__: found)
    with socket.create_server(("127.0.0.1", 0)) as server:
        address = Address("workshop", server.getsockname()[1])

        assert listener_of(address, NOBODY, "no marker") == (os.getpid(), False)


def test_a_name_of_this_machine_that_leads_nowhere_has_no_listener(monkeypatch: pytest.MonkeyPatch) -> None:
    """Then nobody can be foreign."""

    def fail(*_: object, **__: object) -> None:
        raise socket.gaierror

    monkeypatch.setattr(socket, "getaddrinfo", fail)

    assert listener_of(Address("qwen.localhost", 80), os.getpid(), "") == (None, True)


def test_where_the_system_tells_nothing_no_process_is_foreign(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As on macOS, which has no /proc."""
    monkeypatch.setattr(ports_module, "PROC", str(tmp_path))
    with socket.create_server(("127.0.0.1", 0)) as server:
        assert listener_of(Address("127.0.0.1", server.getsockname()[1]), 1, "") == (None, True)


@pytest.mark.parametrize(
    ("family", "host"), [(socket.AF_INET, "127.0.0.1"), (socket.AF_INET, "0.0.0.0"), (socket.AF_INET6, "::1")]
)
def test_the_kernel_and_its_table_tell_of_the_same_listeners(family: socket.AddressFamily, host: str) -> None:
    """Where one of them is forbidden, the other serves as well."""
    with socket.create_server((host, 0), family=family) as server:
        port = server.getsockname()[1]
        asked = ports_module.listeners(family, port)
        read = ports_module.in_table("tcp" if family == socket.AF_INET else "tcp6", port)

    assert [(address, inode) for address, inodes in asked.items() for inode in inodes] == read
    assert len(read) == 1


def test_where_the_kernel_may_not_be_asked_its_table_is_read(monkeypatch: pytest.MonkeyPatch) -> None:
    """Some containers forbid the question."""
    monkeypatch.delattr(socket, "AF_NETLINK")
    with socket.create_server(("127.0.0.1", 0)) as server:
        owner = owner_of("127.0.0.1", server.getsockname()[1])

    assert owner == os.getpid()


def test_a_question_that_the_kernel_refuses_is_an_error() -> None:
    """Not an answer without listeners."""
    with pytest.raises(OSError, match="No such file or directory"):
        ports_module.listening(socket.AF_APPLETALK)


def test_kin_is_of_the_launch() -> None:
    """A process belongs to its ancestors' launch; init's other children do not."""
    assert is_of_launch(os.getpid(), os.getppid(), "no marker")
    assert not is_of_launch(os.getppid(), os.getpid(), "no marker")


def test_who_is_gone_has_no_name() -> None:
    assert name_of(NOBODY) == ""


async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    await reader.readuntil(b"\r\n\r\n")
    writer.write(HEALTHY)
    writer.close()
