"""Whether a server received what was sent on a connection that closed."""

from __future__ import annotations

import socket
import struct
from typing import TYPE_CHECKING

import pytest
from tests.support.waiting import eventually

from hotseat.relay.upstream.kernel import bytes_acknowledged, is_untaken

if TYPE_CHECKING:
    from collections.abc import Iterator

FIRST, SECOND = b"x" * 100, b"y" * 50


@pytest.fixture
def ends() -> Iterator[tuple[socket.socket, socket.socket]]:
    """Ours and the server's, after a first request was answered."""
    with socket.create_server(("127.0.0.1", 0)) as listener, socket.create_connection(listener.getsockname()) as ours:
        theirs, _ = listener.accept()
        with theirs:
            ours.sendall(FIRST)
            theirs.recv(1000)
            theirs.sendall(b"answer")
            ours.recv(1000)
            yield ours, theirs


def end_of(ours: socket.socket) -> Exception | None:
    try:
        return None if ours.recv(100) == b"" else AssertionError("there is more")
    except OSError as problem:
        return problem


def test_a_connection_that_was_closed_before_took_nothing(ends: tuple[socket.socket, socket.socket]) -> None:
    """A request on a connection that the server had closed was not received."""
    ours, theirs = ends
    theirs.close()
    ours.sendall(SECOND)

    assert is_untaken(ours, len(FIRST), end_of(ours))


def test_a_request_that_was_read_is_taken(ends: tuple[socket.socket, socket.socket]) -> None:
    """A request that the server read before it closed counts as received."""
    ours, theirs = ends
    ours.sendall(SECOND)
    theirs.recv(1000)
    theirs.close()
    problem = end_of(ours)

    assert problem is None
    assert not is_untaken(ours, len(FIRST), problem)
    assert eventually(lambda: bytes_acknowledged(ours) == len(FIRST + SECOND))


def test_after_a_reset_nobody_knows(ends: tuple[socket.socket, socket.socket]) -> None:
    """After a reset a request counts as received."""
    ours, theirs = ends
    ours.sendall(SECOND)
    theirs.recv(1000)
    theirs.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    theirs.close()
    problem = end_of(ours)

    assert isinstance(problem, ConnectionResetError)
    assert not is_untaken(ours, len(FIRST), problem)


def test_a_unix_socket_refuses_what_it_does_not_take() -> None:
    """On a unix socket only a broken pipe shows that a request was not received."""
    ours, theirs = socket.socketpair()
    with ours, theirs:
        assert is_untaken(ours, 0, BrokenPipeError())
        assert not is_untaken(ours, 0, None)


def test_a_system_that_does_not_tell_counts_as_taken() -> None:
    """Without the kernel's figure a request counts as received."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as no_tcp:
        assert not is_untaken(no_tcp, 0, None)
