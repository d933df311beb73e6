"""A connection to NATS that is there whenever NATS is: it is made in the background, and made again for ever."""

from __future__ import annotations

import asyncio
import logging
import ssl
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import nats.errors
from nats.aio.client import Client, RawCredentials

from hotseat.fleet.backoff import Pauses
from hotseat.tasks import Tasks

if TYPE_CHECKING:
    from collections.abc import Awaitable

    from hotseat.identifiers import Seconds
    from hotseat.settings import Fleet

log = logging.getLogger(__name__)

RECONNECT_S = 2
"""Between two tries of one server."""
PING_S = 5
"""A connection that is dead without saying so is noticed after three of these."""
CLOSE_S: Seconds = 2.0

PROBLEMS = (nats.errors.Error, OSError, TimeoutError)
"""Everything that may go wrong with NATS through no fault of ours; OSError includes what is wrong with TLS."""


Answer = TypeVar("Answer")


async def asked(work: Awaitable[Answer]) -> Answer:
    """What nats-py answers. It swallows a cancellation that meets it while it sends: here that is made up for."""
    task = asyncio.current_task()
    before = task.cancelling() if task else 0
    try:
        return await work
    except RuntimeError as closed:  # as uvloop says it, where asyncio has an OSError
        raise ConnectionResetError(str(closed)) from closed
    finally:
        if task and task.cancelling() > before:
            raise asyncio.CancelledError


class Link:
    def __init__(self, fleet: Fleet) -> None:
        self._fleet = fleet
        self._client: Client | None = None
        self._tasks = Tasks()
        self._closed = asyncio.Event()
        self._said = ""
        """The last problem that was told: the same one is not told every two seconds."""
        self.up = asyncio.Event()
        self.down = asyncio.Event()
        """One of them is set."""
        self.down.set()

    @property
    def client(self) -> Client:
        assert self._client is not None, "there is one while the link is up"
        return self._client

    def open(self) -> None:
        """Begin to connect; raises what is wrong with certificates at once."""
        self._tasks.start(self._keep(_tls(self._fleet)), "keep the connection to NATS")

    async def aclose(self) -> None:
        await self._tasks.aclose()
        self._turn(up=False)
        if self._client is None:
            return
        try:
            async with asyncio.timeout(CLOSE_S):
                await asked(self._client.close())
        except PROBLEMS as problem:
            log.debug("closing the NATS connection failed error=%r", str(problem))

    async def _keep(self, tls: ssl.SSLContext | None) -> None:
        """nats-py comes back by itself, unless the server threw it out: then a new client tries its luck."""
        pauses = Pauses()
        while True:
            self._closed.clear()
            await self._connect(tls)
            await self._closed.wait()
            self._turn(up=False)
            await asyncio.sleep(pauses.next())

    async def _connect(self, tls: ssl.SSLContext | None) -> None:
        self._client = client = Client()
        try:
            connecting = client.connect(
                **_options(self._fleet),
                tls=tls,
                error_cb=self._tell,
                disconnected_cb=self._lost,
                reconnected_cb=self._found,
                closed_cb=self._ended,
            )
            await asked(connecting)
        except Exception as problem:  # of many kinds, where a file of the login is not what it should be
            await self._tell(problem)
            self._client = None
            self._closed.set()
        else:
            await self._found()

    # What nats-py tells

    async def _found(self) -> None:
        self._said = ""
        self._turn(up=True)

    async def _lost(self) -> None:
        self._turn(up=False)

    async def _ended(self) -> None:
        self._turn(up=False)
        self._closed.set()

    async def _tell(self, problem: Exception) -> None:
        said = str(problem) or type(problem).__name__
        if said != self._said:
            self._said = said
            log.warning("NATS error error=%r", said)

    def _turn(self, *, up: bool) -> None:
        rising, falling = (self.up, self.down) if up else (self.down, self.up)
        falling.clear()
        rising.set()


def _options(fleet: Fleet) -> dict[str, Any]:
    """What nats-py is told; it takes most absent things as None."""
    login = fleet.login
    return {
        "servers": list(fleet.nats),
        "name": f"hotseat {fleet.name}",
        "max_reconnect_attempts": -1,
        "reconnect_time_wait": RECONNECT_S,
        "ping_interval": PING_S,
        "user": login.user or None,
        "password": login.password or None,
        "token": login.token or None,
        "user_credentials": _credentials(login.credentials) if login.credentials else None,
        "nkeys_seed": login.nkey or None,
    }


def _credentials(file: str) -> RawCredentials:
    """Read here and not by nats-py, which reads a file that is none for ever, and the whole program waits for it."""
    text = Path(file).read_text()
    if not all(mark in text for mark in ("BEGIN NATS USER JWT", "BEGIN USER NKEY SEED")):
        raise ValueError(f"{file} contains no NATS credentials")
    return RawCredentials(text)


def _tls(fleet: Fleet) -> ssl.SSLContext | None:
    login = fleet.login
    if not (login.ca or login.cert or any(url.startswith("tls://") for url in fleet.nats)):
        return None
    context = ssl.create_default_context(cafile=login.ca or None)
    if login.cert:
        context.load_cert_chain(login.cert, login.key or None)
    return context
