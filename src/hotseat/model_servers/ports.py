"""Ports on this machine: leased to servers, and which process listens on one.

A leased port is reserved by a bound socket until its server is started. Who listens is known as far as the kernel shows
it: another server must not pass for ours. The listening sockets are listed through netlink (sock_diag), which examines
no others. /proc/net/tcp has the same data, but there the kernel walks all connections: milliseconds if there are none
and tens of them if there are thousands, and no request is served meanwhile.
"""

from __future__ import annotations

import os
import socket
import struct
from typing import TYPE_CHECKING, NamedTuple

from hotseat.model_servers.os_processes import PROC, group_of, marker_of, parent_of, processes
from hotseat.model_servers.remote_launchers import ELSEWHERE
from hotseat.net.listeners import is_here

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from hotseat.identifiers import Address

LOOPBACK = "127.0.0.1"
LAST = 65_535
LISTENING = "0A"
REACHED_AT = {"0.0.0.0": "127.0.0.1", "::": "::1"}
NETLINK_SOCK_DIAG, SOCK_DIAG_BY_FAMILY = 4, 20
DUMP, ERROR, DONE = 0x301, 2, 3  # request, root and match; the two ends of an answer
ONLY_LISTENING = 1 << 10
"""A bit set of TCP states with only this one."""
HEAD = struct.Struct("=IHHII")
QUESTION = struct.Struct("=BBxxI48x")
"""Family, protocol, states, and no particular socket."""
ANSWER = struct.Struct("=4x2s2x16s44xI")
"""Port and address in network order, inode."""
BUFFER = 1 << 16


class PortLease:
    """A port that is not leased again until it is released."""

    def __init__(self, ports: Ports, port: int, held: socket.socket | None = None) -> None:
        self._ports, self.port, self._held = ports, port, held

    def vacate(self) -> None:
        """Close the socket, just before the server binds the port."""
        if self._held:
            self._held.close()

    def release(self) -> None:
        self.vacate()
        self._ports.release(self.port)


class Ports:
    def __init__(self, fixed: Callable[[], frozenset[int]] = frozenset) -> None:
        """`fixed` returns the ports of servers that choose them themselves: they are never leased."""
        self._leased: set[int] = set()
        self._fixed = fixed

    def lease(self, preferred: int | None = None) -> PortLease:
        """A free port chosen by the kernel, or the first free one from `preferred` on; OSError if there is none."""
        for held in free_from(preferred) if preferred else free():
            lease = PortLease(self, held.getsockname()[1], held)
            if lease.port not in self._leased | self._fixed():
                self._leased.add(lease.port)
                return lease
            lease.vacate()
        raise OSError(f"no free port at or above {preferred}")

    def lease_to_running(self, port: int) -> PortLease:
        """For a server that was handed over, and has the port already."""
        self._leased.add(port)
        return PortLease(self, port)

    def release(self, port: int) -> None:
        self._leased.discard(port)


def free() -> Iterator[socket.socket]:
    while True:
        yield bound(0)


def free_from(first: int) -> Iterator[socket.socket]:
    for port in range(first, LAST + 1):
        try:
            held = bound(port)
        except OSError:
            continue
        yield held


def is_taken(port: int) -> bool:
    try:
        bound(port).close()
    except OSError:
        return True
    return False


def bound(port: int) -> socket.socket:
    held = socket.socket()
    try:
        if port:
            # Connections of the last server stay in TIME_WAIT for a minute and must not block the next one.
            held.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        held.bind((LOOPBACK, port))
    except OSError:
        held.close()
        raise
    return held


def listener_of(address: Address, leader: int, marker: str) -> tuple[int | None, bool]:
    """The process that listens for a launch, None if that is unknown, and whether it belongs to the launch."""
    if address.unix_path or not is_here(address.host):
        return None, True
    owner = owner_of(address.host, address.port, leader)
    if owner is None or is_of_launch(owner, leader, marker):
        return owner, True
    return (None, True) if runs_elsewhere(leader) else (owner, False)


def describe_process(pid: int) -> str:
    return f"{name_of(pid)} (pid {pid})"


def owner_of(host: str, port: int, leader: int = 0) -> int | None:
    """A process that listens there, preferably of the launch; None: none is visible."""
    sockets = {f"socket:[{inode}]" for inode in listening_inodes(host, port)}
    if not sockets:
        return None
    if holds(leader, sockets):
        return leader
    nearest_first = sorted(processes(), key=lambda pid: group_of(pid) != leader)
    return next((pid for pid in nearest_first if holds(pid, sockets)), None)


def is_of_launch(pid: int, leader: int, marker: str) -> bool:
    return leader in ancestry(pid) or group_of(pid) == leader or marker_of(pid) == marker


def ancestry(pid: int | None) -> list[int]:
    line = []
    while pid:
        line.append(pid)
        pid = parent_of(pid)
    return line


def runs_elsewhere(leader: int) -> bool:
    return any(name_of(pid) in ELSEWHERE for pid in processes() if group_of(pid) == leader)


def name_of(pid: int) -> str:
    """The name in `ps`; empty if it is gone."""
    try:
        with open(f"{PROC}/{pid}/comm", errors="replace") as comm:
            return comm.read().rstrip("\n")
    except OSError:
        return ""


def holds(pid: int, sockets: set[str]) -> bool:
    try:
        return any(link_of(f"{PROC}/{pid}/fd/{fd}") in sockets for fd in os.listdir(f"{PROC}/{pid}/fd"))
    except OSError:  # gone, or another user's
        return False


def link_of(path: str) -> str:
    try:
        return os.readlink(path)
    except OSError:  # closed meanwhile
        return ""


def listening_inodes(host: str, port: int) -> list[str]:
    """The sockets that accept connections to this address; empty if the system does not say."""
    found = listeners(socket.AF_INET, port) | listeners(socket.AF_INET6, port)
    return next((found[place] for number in numbers(host) for place in places(number) if place in found), [])


def numbers(host: str) -> list[str]:
    """The addresses that a connection to `host` tries; nothing listens at an unspecified one itself. May block."""
    try:
        found = socket.getaddrinfo(host, None, type=socket.SOCK_STREAM)
    except OSError:  # an unknown name
        return []
    addresses = (str(address[0]).partition("%")[0] for _, _, _, _, address in found)
    return [REACHED_AT.get(address, address) for address in addresses]


def listeners(family: socket.AddressFamily, port: int) -> dict[str, list[str]]:
    """Inodes of the listening sockets on this port, by local address in the kernel's notation."""
    try:
        found = [(in_words(each.address), str(each.inode)) for each in listening(family) if each.port == port]
    except OSError:  # forbidden in some containers
        found = in_table("tcp" if family == socket.AF_INET else "tcp6", port)
    by_address: dict[str, list[str]] = {}
    for address, inode in found:
        by_address.setdefault(address, []).append(inode)
    return by_address


def in_table(table: str, port: int) -> list[tuple[str, str]]:
    """Local address and inode of each listening socket on this port, from /proc/net."""
    try:
        with open(f"{PROC}/net/{table}") as lines:
            rows = [line.split() for line in lines if f":{port:04X} " in line]
    except OSError:
        return []
    ours = [row for row in rows if row[3] == LISTENING and row[1].endswith(f":{port:04X}")]
    return [(row[1].partition(":")[0], row[9]) for row in ours]


def places(host: str) -> list[str]:
    """Where a server for `host` may listen, most specific first, like the kernel."""
    if ":" in host:
        return [written(host), written("::")]
    return [written(host), written(f"::ffff:{host}"), written("0.0.0.0"), written("::")]


def written(host: str) -> str:
    return in_words(socket.inet_pton(socket.AF_INET6 if ":" in host else socket.AF_INET, host))


def in_words(address: bytes) -> str:
    return "".join(f"{word:08X}" for word in struct.unpack(f"={len(address) // 4}I", address))


class Listener(NamedTuple):
    port: int
    address: bytes
    """4 or 16 bytes, depending on the family."""
    inode: int


def listening(family: socket.AddressFamily) -> list[Listener]:
    """All of this family in this network namespace; OSError if the kernel does not say."""
    if not hasattr(socket, "AF_NETLINK"):
        raise OSError("there is no netlink here")
    with socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, NETLINK_SOCK_DIAG) as kernel:
        kernel.settimeout(1.0)
        question = QUESTION.pack(family, socket.IPPROTO_TCP, ONLY_LISTENING)
        kernel.sendto(HEAD.pack(HEAD.size + len(question), SOCK_DIAG_BY_FAMILY, DUMP, 0, 0) + question, (0, 0))
        width = 4 if family == socket.AF_INET else 16
        return [listener_in(answer, width) for answer in answers(kernel)]


def answers(kernel: socket.socket) -> Iterator[bytes]:
    """Messages as they arrive, several at a time, until the kernel sends DONE."""
    while True:
        received = kernel.recv(BUFFER)
        while received:
            length, kind, *_ = HEAD.unpack_from(received)
            if kind == DONE:
                return
            if kind == ERROR:
                number = -struct.unpack_from("=i", received, HEAD.size)[0]
                raise OSError(number, os.strerror(number))
            yield received[HEAD.size : length]
            received = received[(length + 3) & ~3 :]


def listener_in(answer: bytes, width: int) -> Listener:
    port, address, inode = ANSWER.unpack_from(answer)
    return Listener(int.from_bytes(port, "big"), address[:width], inode)
