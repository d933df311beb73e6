"""Waits until a server that was started is ready, has exited, or takes too long.

It is asked until it answers 200: often at first, so that a quick start is noticed at once. A server that downloads its
model itself (`llama-server -hf`) has failed only when it has stood still for its time: the size of the model is unknown
until it is there, so no time limit for the whole start would be right.
"""

from __future__ import annotations

import asyncio
import logging
import re
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple

from hotseat.estimates.command import Engine, server_in
from hotseat.estimates.llama_flags import LlamaFlags
from hotseat.estimates.report import CannotEstimate
from hotseat.model_servers.launch_failures import Exited, Trouble
from hotseat.model_servers.load_progress import process_text, taken_in
from hotseat.model_servers.os_processes import children
from hotseat.net.happy_eyeballs import Connector
from hotseat.net.http_client import connected, fetch
from hotseat.tasks import Tasks
from hotseat.threads import look_at_disk

if TYPE_CHECKING:
    from collections.abc import Mapping

    from hotseat.catalog.spec import FilledRecipe
    from hotseat.identifiers import Address, Bytes, ModelName, Seconds
    from hotseat.model_servers.guarded_process import Child

log = logging.getLogger(__name__)
PROBE_TIMEOUT_S = 2.0
SHORTEST_PAUSE_S, LONGEST_PAUSE_S = 0.005, 0.25
PART = 0.02
"""Of the elapsed time: the average delay until readiness is noticed is half of it."""
OK = 200
UNREACHED = "nothing is listening there"
UNANSWERED = "it accepted the connection, but did not answer the health check"
SHORTEST_DEADLINE_S: Seconds = 120.0
SLOWEST: Bytes = 50 * 10**6
"""Bytes that a slow disk reads in a second."""
WRITTEN = re.compile(r"^wchar: (\d+)$", re.MULTILINE)
LEAST: Bytes = 1 << 20
"""A server that only logs that it waits writes less than this."""


class ReadinessWait:
    def __init__(
        self, model: ModelName, child: Child, recipe: FilledRecipe, within_s: Seconds, lines: bytes, does_download: bool
    ) -> None:
        """`lines` are sent with each health check."""
        self._model, self._child, self._recipe, self._within_s, self._lines = model, child, recipe, within_s, lines
        self._does_download = does_download

    async def ready(self) -> Ready:
        """Trouble: it exited or took too long."""
        readiness, tasks = Readiness(self._recipe.address, self._recipe.check_endpoint, lines=self._lines), Tasks()
        answer: asyncio.Task[Address] = tasks.start(readiness.reached(), f"ask {self._model}")
        try:
            await self._first_of({answer, self._child.gone})
        finally:
            await tasks.aclose()
        if self._child.gone.done():
            raise Exited(await self._child.exited())
        if answer.cancelled():
            raise Trouble(self._late(readiness))
        return Ready(await answer, readiness.server)

    async def _first_of(self, ends: set[asyncio.Future[Any]]) -> None:
        """Return when one of them is done, or too late: a server that downloads its model has time while it does."""
        download, place = None, (self._model, "download")
        if self._does_download:
            download = await look_at_disk(place, partial(DownloadProgress, self._child.pid))
        looks = looks_left = 2 if download else 1
        while looks_left:
            done, _ = await asyncio.wait(ends, timeout=self._within_s / looks, return_when=asyncio.FIRST_COMPLETED)
            if done:
                return
            looks_left -= 1
            if download is not None and await look_at_disk(place, download.has_grown):
                log.info("server is still downloading its model, waiting longer model=%s", self._model)
                looks_left = looks

    def _late(self, readiness: Readiness) -> str:
        asked = f"{self._recipe.address}{self._recipe.check_endpoint or ''}"
        seconds = f"health check timed out after {self._within_s:g} seconds"
        is_silent = readiness.last_answer == UNREACHED
        advice = "Correct the port in `cmd` or `proxy` if it listens elsewhere, or raise" if is_silent else "Raise"
        return f"{seconds} ({asked}: {readiness.last_answer}). {advice} healthCheckTimeout if it needs more time"


class Ready(NamedTuple):
    address: Address
    server: str
    """Its `Server` header."""


def deadline_s(weight: Bytes) -> Seconds:
    """PURE: default limit for a start: large files take long, especially over a network."""
    return max(SHORTEST_DEADLINE_S, float(weight // SLOWEST))


class Readiness:
    """Waits for one server's first 200; `last_answer` says how far it got."""

    def __init__(
        self, address: Address, check_endpoint: str | None, connector: Connector | None = None, *, lines: bytes = b""
    ) -> None:
        """`lines` are sent with each question."""
        self._connector, self._lines = connector or Connector(), lines
        self._addresses_of = addresses_of(address)
        self._check_endpoint = check_endpoint
        self.last_answer = UNREACHED
        self.server = ""
        """The `Server` header of the answer."""

    async def reached(self) -> Address:
        """Return the first address that answers. Waits without limit: the caller sets one."""
        loop = asyncio.get_running_loop()
        began = loop.time()
        while True:
            for address in self._addresses_of:
                if await self._opens(address):
                    return address
            await asyncio.sleep(pause(loop.time() - began))

    async def _opens(self, address: Address) -> bool:
        if self._check_endpoint is None:
            return await accepts(address, self._connector)
        try:
            answer = await fetch(
                address,
                self._check_endpoint,
                self._connector,
                lines=self._lines,
                within=PROBE_TIMEOUT_S,
                most=0,
                when_connected=self._connected,
            )
        except (ConnectionRefusedError, FileNotFoundError, TimeoutError):
            return False
        except (OSError, ValueError) as problem:
            self.last_answer = f"it sent an invalid response ({problem})"
        else:
            self.server = answer.fields.get("server", "")
            self.last_answer = f"the last response was {answer.status}"
            return answer.status == OK
        return False

    def _connected(self) -> None:
        if self.last_answer == UNREACHED:  # an earlier response says more
            self.last_answer = UNANSWERED


def addresses_of(address: Address) -> list[Address]:
    """Addresses to try: `localhost` is 127.0.0.1 to some servers and ::1 to others."""
    if address.host != "localhost" or address.unix_path or address.tls:  # a certificate names the host
        return [address]
    return [address._replace(host="127.0.0.1"), address._replace(host="::1")]


def pause(elapsed: Seconds) -> Seconds:
    return min(max(PART * elapsed, SHORTEST_PAUSE_S), LONGEST_PAUSE_S)


async def accepts(address: Address, connector: Connector) -> bool:
    """Does a connection succeed?"""
    try:
        async with asyncio.timeout(PROBE_TIMEOUT_S), connected(address, connector):
            return True
    except OSError:  # includes timeouts
        return False


def downloads_itself(argv: tuple[str, ...], env: Mapping[str, str]) -> bool:
    """Whether the command names a model by its repository or URL instead of a file."""
    try:
        server = server_in(argv, env)
    except CannotEstimate:
        return False
    flags = LlamaFlags.parse(server.options, server.env)
    return server.engine is Engine.LLAMA and any(map(flags.text, ("fetched", "fetched_draft")))


class DownloadProgress:
    """What the processes of a server have written and read.

    A process counts only if it was there at the last look too: a shell that starts a server again and again makes no
    progress, although each new process reads its libraries. A process with children does not count, because the kernel
    adds to it what those have done that ended.
    """

    def __init__(self, pid: int) -> None:
        self._pid = pid
        self._before = moved(pid)

    def has_grown(self) -> bool:
        """Whether one of the processes has noticeably more than at the last look."""
        before, self._before = self._before, moved(self._pid)
        return any(size >= before[pid] + LEAST for pid, size in self._before.items() if pid in before)


def moved(pid: int) -> dict[int, Bytes]:
    """Bytes that each process below, or this one if there are none, has written and read."""
    below = children(pid)
    if not below:
        return {pid: written_by(pid) + taken_in(pid)}
    return {each: size for child in below for each, size in moved(child).items()}


def written_by(pid: int) -> Bytes:
    """Bytes that a process has written; 0 if the kernel does not say."""
    own = WRITTEN.search(process_text(pid, "io"))
    return int(own[1]) if own else 0
