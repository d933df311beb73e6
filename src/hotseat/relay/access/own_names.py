"""The names of this machine, without network lookups."""

from __future__ import annotations

import socket
from pathlib import Path

HOSTS = Path("/etc/hosts")
LARGEST_HOSTS_FILE = 1 << 20


def own_names(hosts: Path = HOSTS) -> frozenset[str]:
    """The host name, and the names on the same line of the hosts file, which usually has the full name.

    Other names in that file are ignored even if they resolve to this machine, as in block lists of unwanted servers.
    """
    name = _plain(socket.gethostname())
    if name in ("", "localhost"):
        return frozenset()
    lines = (line.partition("#")[0].lower().split()[1:] for line in _text(hosts).splitlines())
    beside = (other for names in lines if name in map(_plain, names) for other in names)
    return frozenset((name, *map(_plain, beside)))


def _plain(name: str) -> str:
    return name.lower().removesuffix(".")


def _text(hosts: Path) -> str:
    try:
        with hosts.open(errors="replace") as file:
            return file.read(LARGEST_HOSTS_FILE)
    except OSError:
        return ""
