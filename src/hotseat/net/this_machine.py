"""Which names and addresses are those of this machine. Nobody else is asked: a name server may be slow, or lie.

The configuration, the start of a model server and the check of Host headers must agree on this.
"""

from __future__ import annotations

import socket
from contextlib import suppress
from ipaddress import ip_address
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ipaddress import IPv4Address, IPv6Address

HOSTS = Path("/etc/hosts")
LARGEST_HOSTS_FILE = 1 << 20
LOCALHOST = ".localhost"
ANY_PORT = 9


def is_here(host: str) -> bool:
    """Does a connection to `host` reach this machine? May read a file."""
    try:
        address = ip_address(host.partition("%")[0])
    except ValueError:
        name = _plain(host)
        return name == "localhost" or name.endswith(LOCALHOST) or name in own_names()
    return address.is_loopback or address.is_unspecified or _is_assigned(address)


def _is_assigned(address: IPv4Address | IPv6Address) -> bool:
    """The kernel reaches an address of its own from that address. `bind` may accept others, too (ip_nonlocal_bind)."""
    family = socket.AF_INET if address.version == 4 else socket.AF_INET6
    with suppress(OSError), socket.socket(family, socket.SOCK_DGRAM) as probe:
        probe.connect((str(address), ANY_PORT))  # which sends nothing
        return ip_address(probe.getsockname()[0].partition("%")[0]) == address
    return False


def own_names(hosts: Path = HOSTS) -> frozenset[str]:
    """The host name, and the names on the same line of the hosts file, which usually has the full name.

    Other names in that file are ignored even if they resolve to this machine, as in block lists of unwanted servers,
    and so are names under `.localhost`, which are addresses of model servers.
    """
    name = _plain(socket.gethostname())
    if name in ("", "localhost"):
        return frozenset()
    text = ""
    with suppress(OSError), hosts.open(errors="replace") as file:
        text = file.read(LARGEST_HOSTS_FILE)
    lines = (line.partition("#")[0].lower().split()[1:] for line in text.splitlines())
    beside = (_plain(other) for names in lines if name in map(_plain, names) for other in names)
    return frozenset((name, *(other for other in beside if not other.endswith(LOCALHOST))))


def _plain(name: str) -> str:
    return name.lower().removesuffix(".")
