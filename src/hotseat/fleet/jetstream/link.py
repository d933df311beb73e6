"""A connection to NATS that is opened in the background and reopened forever."""

from __future__ import annotations

import asyncio
import logging
import ssl
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import nats.errors
from nats.aio.client import Client, RawCredentials

from hotseat.fleet.backoff import Backoff
from hotseat.net.happy_eyeballs import in_plain_words
from hotseat.tasks import Tasks, forever

if TYPE_CHECKING:
    from collections.abc import Awaitable

    from hotseat.identifiers import Seconds
    from hotseat.settings import Fleet

log = logging.getLogger(__name__)

RECONNECT_S = 2
"""Between two attempts at one server."""
PING_S = 5
"""A dead connection is noticed after three of these."""
CLOSE_S: Seconds = 2.0

PROBLEMS = (nats.errors.Error, OSError, TimeoutError)
"""Failures of NATS that are not our bugs; OSError includes TLS errors."""


Answer = TypeVar("Answer")


async def asked(work: Awaitable[Answer]) -> Answer:
    """Await a nats-py call. nats-py swallows a cancellation that arrives while it sends; this raises it again."""
    task = asyncio.current_task()
    before = task.cancelling() if task else 0
    try:
        return await work
    except RuntimeError as closed:  # uvloop raises this where asyncio raises OSError
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
        """The last logged problem, so that it is not logged every two seconds."""
        self.up = asyncio.Event()
        self.down = asyncio.Event()
        """Exactly one of the two is set."""
        self.down.set()

    @property
    def client(self) -> Client:
        assert self._client is not None, "there is one while the link is up"
        return self._client

    def open(self) -> None:
        """Start connecting; certificate errors are raised at once."""
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
        """nats-py reconnects by itself unless the server closed the connection for good; then create a new client."""
        pauses = Backoff()

        async def keep() -> None:
            self._closed.clear()
            await self._connect(tls)
            await self._closed.wait()
            self._turn(up=False)
            await asyncio.sleep(pauses.next())

        await forever(keep, "keep the connection to NATS")

    async def _connect(self, tls: ssl.SSLContext | None) -> None:
        self._client = client = Client()
        try:
            connecting = client.connect(
                **_options(self._fleet),
                tls=tls,
                error_cb=self._log_problem,
                disconnected_cb=self._lost,
                reconnected_cb=self._found,
                closed_cb=self._ended,
            )
            await asked(connecting)
        except Exception as problem:  # many types are possible if a credentials file is invalid
            await self._log_problem(problem)
            self._client = None
            self._closed.set()
        else:
            await self._found()

    # Callbacks of nats-py

    async def _found(self) -> None:
        self._said = ""
        self._turn(up=True)

    async def _lost(self) -> None:
        self._turn(up=False)

    async def _ended(self) -> None:
        self._turn(up=False)
        self._closed.set()

    async def _log_problem(self, problem: Exception) -> None:
        plain = in_plain_words(problem) if isinstance(problem, OSError) else problem
        said = str(plain) or type(problem).__name__
        if said != self._said:
            self._said = said
            log.warning("NATS error error=%r", said)

    def _turn(self, *, up: bool) -> None:
        rising, falling = (self.up, self.down) if up else (self.down, self.up)
        falling.clear()
        rising.set()


def _options(fleet: Fleet) -> dict[str, Any]:
    """The options of nats-py, most of which accept None for "not set"."""
    login = fleet.login
    return {
        "servers": list(fleet.nats),
        "name": f"hotseat {fleet.name}",
        "max_reconnect_attempts": -1,
        "reconnect_time_wait": RECONNECT_S,
        "ping_interval": PING_S,
        "user": login.user or None,
        "password": login.password or None,
        "user_credentials": _credentials(login.credentials) if login.credentials else None,
    }


def _credentials(file: str) -> RawCredentials:
    """Read here because nats-py loops forever on a file without credentials and blocks the whole program."""
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
