"""What the new process gets from the old one at its start."""

from __future__ import annotations

import os
import socket
from typing import TYPE_CHECKING

import pytest

from hotseat.handover.channel import receive_first
from hotseat.handover.predecessor import VERSION, Predecessor, predecessor_in
from hotseat.handover.stand_in import HANDOVER
from hotseat.model_servers.guard_messages import Messages

if TYPE_CHECKING:
    from collections.abc import Iterator

HERE, OLLAMA, ELSEWHERE = ("127.0.0.1", 8080), ("127.0.0.1", 11434), ("127.0.0.1", 9090)


class OldProcess:
    """The end of the old process, and sockets that it listens at."""

    def __init__(self) -> None:
        self.ours, self.theirs = socket.socketpair()
        self.for_clients = socket.create_server(("127.0.0.1", 0))
        self.for_ollama = socket.create_server(("127.0.0.1", 0))

    def says_hello(self, version: int = VERSION, *, by_systemd: bool = False) -> None:
        facts = {"version": version, "sockets": 1, "listen": HERE, "ollama_listen": OLLAMA, "by_systemd": by_systemd}
        fds = [self.for_clients.fileno(), self.for_ollama.fileno()]
        Messages(self.ours).send({"kind": "hello", **facts}, map(os.dup, fds))

    def stops_listening(self) -> None:
        self.for_clients.close()
        self.for_ollama.close()

    def close(self) -> None:
        self.stops_listening()
        self.ours.close()
        self.theirs.close()


@pytest.fixture
def old() -> Iterator[OldProcess]:
    old = OldProcess()
    yield old
    old.close()


def is_refused(address: tuple[str, int]) -> bool:
    try:
        socket.create_connection(address, timeout=5).close()
    except ConnectionRefusedError:
        return True
    return False


def test_the_addresses_stay(old: OldProcess) -> None:
    """The new process listens at the same sockets, so no connection is refused between the two."""
    old.says_hello()
    predecessor = Predecessor(old.theirs)
    address = old.for_clients.getsockname()
    [here], [ollama] = predecessor.sockets_for(HERE), predecessor.sockets_for_ollama(OLLAMA)
    old.stops_listening()

    assert here.getsockname() == address
    assert not is_refused(address)
    here.close()
    ollama.close()


@pytest.mark.parametrize("ollama", [ELSEWHERE, None])
def test_the_addresses_have_changed(old: OldProcess, ollama: tuple[str, int] | None) -> None:
    """The former ones close with the old process: otherwise clients would connect there and never get an answer."""
    old.says_hello()
    predecessor = Predecessor(old.theirs)
    addresses = [old.for_clients.getsockname(), old.for_ollama.getsockname()]

    assert predecessor.sockets_of_systemd() == []
    assert predecessor.sockets_for(ELSEWHERE) == predecessor.sockets_for_ollama(ollama) == []
    old.stops_listening()
    assert [is_refused(address) for address in addresses] == [True, True]


def test_systemd_opened_the_sockets(old: OldProcess) -> None:
    """They are used whatever the configuration says."""
    old.says_hello(by_systemd=True)
    predecessor = Predecessor(old.theirs)
    [sock] = predecessor.sockets_of_systemd()

    assert sock.getsockname() == old.for_clients.getsockname()
    sock.close()
    assert predecessor.sockets_for_ollama(None) == []


def test_another_format(old: OldProcess) -> None:
    """The new process refuses, and the old one is told why."""
    old.says_hello(version=VERSION + 1)
    with pytest.raises(ValueError, match="format 2, and this one reads format 1"):
        Predecessor(old.theirs)

    refusal = receive_first(old.ours, within=5.0)
    assert (refusal.kind, "format 2" in refusal.facts["reason"]) == ("failed", True)


def test_the_variable_is_for_the_new_process_alone(old: OldProcess) -> None:
    """It is removed, so that no model server gets it; without it the start is an ordinary one."""
    old.says_hello()
    environ = {HANDOVER: str(os.dup(old.theirs.fileno())), "HOME": "/"}
    predecessor = predecessor_in(environ)

    assert predecessor is not None
    assert environ == {"HOME": "/"}
    assert predecessor_in(environ) is None
    predecessor._socket.close()
