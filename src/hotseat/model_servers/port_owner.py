"""Which process listens on a port, as far as the kernel shows it: another server must not pass for ours."""

from __future__ import annotations

import os
import socket
import struct
from typing import TYPE_CHECKING

from hotseat.model_servers.os_processes import PROC, group_of, marker_of, parent_of, processes
from hotseat.model_servers.remote_launchers import ELSEWHERE
from hotseat.model_servers.sock_diag import listening
from hotseat.net.listeners import is_here

if TYPE_CHECKING:
    from hotseat.identifiers import Address

LISTENING = "0A"
REACHED_AT = {"0.0.0.0": "127.0.0.1", "::": "::1"}


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
