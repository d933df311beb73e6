"""Where clients connect: sockets at addresses of this machine, their TLS certificate, and a socket for our user alone.

Which names and addresses are those of this machine is decided here alone: the configuration, the start of a model
server and the check of Host headers must agree on it. Nobody else is asked: a name server may be slow, or lie.
"""

from __future__ import annotations

import errno
import fcntl
import os
import socket
import ssl
import stat
import tempfile
from contextlib import ExitStack, contextmanager, suppress
from ipaddress import ip_address
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator
    from ipaddress import IPv4Address, IPv6Address

    from hotseat.settings import TlsFiles

    LookUp = Callable[..., Iterable[tuple[int, int, int, str, Any]]]

NOT_OF_THIS_MACHINE = (errno.EADDRNOTAVAIL, errno.EAFNOSUPPORT)
"""Errors of bind where the hosts file maps `localhost` to ::1 and IPv6 is off."""
BACKLOG = 4096
PREFIX = "hotseat-"
LOCK = "lock"
"""A file beside the socket that its process has locked. The kernel releases the lock however the process ends."""
MOST_LOOKED_AT = 10_000
"""Entries of the folder for temporary files, which may be full of those of others, so that no start takes long."""
HOSTS = Path("/etc/hosts")
LARGEST_HOSTS_FILE = 1 << 20
LOCALHOST = ".localhost"
ANY_PORT = 9


def bound(listen: tuple[str, int], look_up: LookUp = socket.getaddrinfo) -> list[socket.socket]:
    """Sockets that listen at every address of a name (`localhost` may have two), so that connections wait until they
    are accepted. OSError if an address is in use or none is local."""
    host, port = listen
    found = look_up(host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
    absent: OSError | None = None
    with ExitStack() as unless_all_bind:
        sockets = []
        for family, address in dict.fromkeys((family, address) for family, _, _, _, address in found):
            try:
                sockets.append(unless_all_bind.enter_context(bound_socket(family, address)))
            except OSError as problem:
                if problem.errno not in NOT_OF_THIS_MACHINE:
                    raise
                absent = problem
        if absent and not sockets:
            raise absent
        unless_all_bind.pop_all()
    return sockets


def bound_socket(family: int, address: Any) -> socket.socket:
    # asyncio sets TCP_NODELAY only if the protocol is given; uvloop always does.
    sock = socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    try:
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        if family == socket.AF_INET6:
            sock.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
        sock.bind(address)
        sock.listen(BACKLOG)  # at once: until then another program may still take the port
    except OSError:
        sock.close()
        raise
    return sock


def tls_context(files: TlsFiles | None) -> ssl.SSLContext | None:
    if files is None:
        return None
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.set_alpn_protocols(["http/1.1"])
    context.load_cert_chain(*files)
    return context


@contextmanager
def private_socket(name: str) -> Iterator[socket.socket]:
    """A unix socket that only our own user can connect to, since no key is checked behind it.

    It listens, so that clients can connect and wait until somebody answers; its folder is removed afterwards.
    """
    remove_leftovers(name)
    with (
        tempfile.TemporaryDirectory(prefix=PREFIX) as created,
        (Path(created) / LOCK).open("w") as lock,
        socket.socket(socket.AF_UNIX) as sock,
    ):
        try:
            fcntl.flock(lock, fcntl.LOCK_EX)
        except OSError:  # without this file, nobody takes the folder for a leftover
            os.unlink(lock.name)
        with only_for_us():
            sock.bind(str(Path(created) / name))  # after the lock: a socket beside a free lock is a leftover
        sock.listen(socket.SOMAXCONN)
        yield sock


def remove_leftovers(name: str) -> None:
    """Remove the folders of our user whose process was killed."""
    with suppress(OSError), os.scandir(tempfile.gettempdir()) as entries:
        for entry in islice(entries, MOST_LOOKED_AT):
            if entry.name.startswith(PREFIX):
                with suppress(OSError):  # another user's, another process's, or one that another hotseat removes now
                    _remove_if_left(Path(entry.path), name)


def _remove_if_left(folder: Path, name: str) -> None:
    """OSError if its process lives, or if it is no folder of a private socket."""
    of_folder, of_socket = folder.lstat(), (folder / name).lstat()
    is_ours = of_folder.st_uid == of_socket.st_uid == os.geteuid()
    if not (is_ours and stat.S_ISDIR(of_folder.st_mode) and stat.S_ISSOCK(of_socket.st_mode)):
        return
    with (folder / LOCK).open("r+") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        (folder / name).unlink()
        (folder / LOCK).unlink()
        folder.rmdir()


@contextmanager
def only_for_us() -> Iterator[None]:
    """Files created inside the block have mode 0600. fchmod on a socket works only on Linux."""
    before = os.umask(0o177)
    try:
        yield
    finally:
        os.umask(before)


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
