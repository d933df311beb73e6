"""Connect to a host name that may have several addresses (Happy Eyeballs, RFC 8305).

All addresses share the caller's one time limit: the next is tried when the previous one failed or was silent for a
moment. The event loops' own create_connection tries them one by one, so a first address that drops packets would use up
all the time.
"""

from __future__ import annotations

import asyncio
import os
import socket
import ssl
from collections import deque
from dataclasses import dataclass
from functools import partial
from ipaddress import ip_address
from typing import TYPE_CHECKING, Any

from hotseat.tasks import Tasks
from hotseat.threads import begun

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable
    from concurrent.futures import Future

    from hotseat.identifiers import Address, Seconds

    Resolve = Callable[[str, int], Awaitable[list["Place"]]]

SILENCE_S: Seconds = 0.25
MOST_LOOKUPS = 64
"""At once; more wait. One takes half a minute if no name server answers, and all threads of an executor would wait."""
FREE_AGAIN_S: Seconds = 0.05
_lookups: dict[str, Future[list[Any]]] = {}
"""In progress, by name: who asks again meanwhile needs no thread."""


@dataclass(frozen=True, slots=True)
class Place:
    """One resolved address, in the form of the socket module."""

    family: int
    address: tuple[Any, ...]


async def look_up(host: str, port: int) -> list[Place]:
    while (lookup := _lookups.get(host)) is None and len(_lookups) >= MOST_LOOKUPS:  # noqa: ASYNC110 - threads end them
        await asyncio.sleep(FREE_AGAIN_S)
    if lookup is None:
        ask = partial(socket.getaddrinfo, host, None, type=socket.SOCK_STREAM)
        lookup = _lookups[host] = begun("look up a name", ask)
        lookup.add_done_callback(lambda _: _lookups.pop(host))
    found = await asyncio.wrap_future(lookup)
    return [Place(family, (address[0], port, *address[2:])) for family, _, _, _, address in found]


class Connector:
    """Remembers which address of a name answered last, and tries it first."""

    def __init__(self, resolve: Resolve = look_up) -> None:
        self._resolve = resolve
        self._answered: dict[tuple[str, int], Place] = {}

    async def way_to(self, address: Address) -> dict[str, Any]:
        """The arguments for create_connection or open_connection; raises like `connect`."""
        if not is_name(address.host):  # the loops handle IP addresses themselves, in half the time
            return {"host": address.host, "port": address.port}
        sock = await self.connect(address.host, address.port)
        return {"sock": sock, "server_hostname": address.host if address.tls else None}

    async def connect(self, host: str, port: int) -> socket.socket:
        """A socket connected to the first address that answers; OSError if none does. Sets no time limit."""
        last = self._answered.get((host, port))
        places = sorted(await self._resolve(host, port), key=lambda place: place != last)
        attempts = [Attempt(place) for place in places]
        try:
            winner = await first_of(attempts)
            self._answered[host, port] = winner.place
            return winner.take()
        finally:
            for attempt in attempts:
                attempt.close()


def is_name(host: str) -> bool:
    try:
        ip_address(host.partition("%")[0])
    except ValueError:
        return True
    return False


class Attempt:
    def __init__(self, place: Place) -> None:
        self.place = place
        self.problem: OSError | None = None
        self._sock: socket.socket | None = None

    async def made(self) -> Attempt:
        """Return once the connection succeeded or failed; `problem` is set if it failed."""
        try:
            # asyncio disables Nagle's algorithm only for sockets whose protocol is given as TCP.
            self._sock = socket.socket(self.place.family, socket.SOCK_STREAM, socket.IPPROTO_TCP)
            self._sock.setblocking(False)
            await asyncio.get_running_loop().sock_connect(self._sock, self.place.address)
        except OSError as problem:
            self.problem = in_plain_words(problem)
        return self

    def take(self) -> socket.socket:
        """The connected socket; the caller must close it."""
        sock, self._sock = self._sock, None
        assert sock is not None
        return sock

    def close(self) -> None:
        if self._sock is not None:
            self._sock.close()


def in_plain_words(problem: OSError) -> OSError:
    """Plain asyncio reports "Connect call failed" for every delayed failure; the errno has the real reason.

    TLS and lookups of names have numbers of their own, with words of their own.
    """
    if not problem.errno or isinstance(problem, ssl.SSLError | socket.gaierror):
        return problem
    return OSError(problem.errno, os.strerror(problem.errno))


async def first_of(attempts: list[Attempt]) -> Attempt:
    """The first attempt that succeeds. No attempt is still running when this returns."""
    tasks = Tasks()
    to_make = deque(attempts)
    in_progress: set[asyncio.Task[Attempt]] = set()
    try:
        while to_make or in_progress:
            if to_make:
                in_progress.add(tasks.start(to_make.popleft().made(), "connect"))
            patience = SILENCE_S if to_make else None
            made, in_progress = await asyncio.wait(in_progress, timeout=patience, return_when=asyncio.FIRST_COMPLETED)
            for attempt in (task.result() for task in made):
                if attempt.problem is None:
                    return attempt
    finally:
        await tasks.aclose()
    raise failure(attempts)


def failure(attempts: list[Attempt]) -> OSError:
    """The common error if all addresses failed alike, else one message that lists each address with its error."""
    problems = {attempt.place.address[0]: attempt.problem for attempt in attempts if attempt.problem}
    first, *others = problems.values()
    if all(type(other) is type(first) for other in others):
        return first
    return OSError("; ".join(f"{host}: {problem.strerror}" for host, problem in problems.items()))
