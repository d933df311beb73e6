"""Routes a request to a fleet host: selects it, waits for agreement if needed, and retries if it refuses.

A host that refused a request is excluded for a while, so this ends: with another host, this one, or an error.
"""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING, Protocol

from hotseat.errors import HotseatError
from hotseat.fleet.route import ThisHost

if TYPE_CHECKING:
    import asyncio
    from collections.abc import Callable, Iterator

    from hotseat.fleet.host_proof import Signer
    from hotseat.fleet.route import OtherHost, Route
    from hotseat.identifiers import ClientId, HostName, ModelName
    from hotseat.relay.http.response_head import ResponseHead


class Hosts(Protocol):
    """The fleet as the relay uses it."""

    name: HostName
    signer: Signer

    def select(self, model: ModelName, client: ClientId) -> Route | None:
        """The host to use; None if hosts must agree first. Raises if no host can serve it."""
        ...

    def claim_and_select(
        self,
        model: ModelName,
        client: ClientId,
        agreed: Callable[[Route | HotseatError], None],
    ) -> asyncio.Task[None]:
        """The same after the hosts agree; calls `agreed` once, unless the task is cancelled."""
        ...

    def sent(self, host: HostName, model: ModelName) -> None: ...
    def came_back(self, host: HostName, model: ModelName) -> None: ...
    def turned_away(self, host: HostName) -> None:
        """It was unreachable, or refused a request."""
        ...

    def disbelieved(self, host: HostName, because: str) -> None:
        """It rejects the proof that this host forwarded the request."""
        ...

    def failed(self, host: HostName, model: ModelName) -> None:
        """It cannot start the model."""
        ...

    def note_load(self, host: HostName, model: ModelName, load: int) -> None:
        """This many requests use or want the model there."""
        ...


class HopOwner(Protocol):
    """The exchange that is being routed."""

    def refused(self, error: HotseatError) -> None: ...
    def crashed(self, problem: Exception) -> None:
        """A bug of ours prevented the routing."""


class FleetHop:
    def __init__(
        self, hosts: Hosts, model: ModelName, client: ClientId, go: Callable[[Route], None], owner: HopOwner
    ) -> None:
        """`go` sends the request where it is told to; it may raise HotseatError."""
        self._hosts, self._model, self._client, self._send_to, self._owner = hosts, model, client, go, owner
        self._at: OtherHost | None = None
        self._agreeing: asyncio.Task[None] | None = None

    def find(self) -> None:
        """The request is then sent, waiting for an agreement, or refused, whatever goes wrong."""
        with self._refusing():
            where = self._hosts.select(self._model, self._client)
            if where is None:
                self._agreeing = self._hosts.claim_and_select(self._model, self._client, self._agreed)
                self._agreeing.add_done_callback(self._agreement_ended)
            else:
                self._go(where)

    def turned_away(self, unproven: str = "") -> None:
        """The host did nothing for it, perhaps because it rejected our proof: try the next one."""
        assert self._at is not None
        if unproven:
            self._hosts.disbelieved(self._at.host, unproven)
        self._hosts.turned_away(self._at.host)
        self.come_back()
        self.find()

    def answered(self, head: ResponseHead) -> None:
        """Record what the host reports about itself in the response, for the routing of later requests."""
        assert self._at is not None
        if head.is_failed_start:
            self._hosts.failed(self._at.host, self._model)
        if (load := head.queue_length) is not None:
            self._hosts.note_load(self._at.host, self._model, load)

    def come_back(self) -> None:
        """The request is over or goes to another host. Safe to call twice."""
        if self._agreeing is not None:
            self._agreeing.cancel()
            self._agreeing = None
        if self._at is not None:
            self._hosts.came_back(self._at.host, self._model)
            self._at = None

    def _agreed(self, where: Route | HotseatError) -> None:
        self._agreeing = None
        if isinstance(where, HotseatError):
            return self._owner.refused(where)
        with self._refusing():
            self._go(where)
        return None

    @contextmanager
    def _refusing(self) -> Iterator[None]:
        """The callers are callbacks of connections and tasks, which could not answer the client."""
        try:
            yield
        except HotseatError as error:
            self._owner.refused(error)
        except Exception as problem:
            self._owner.crashed(problem)

    def _agreement_ended(self, agreeing: asyncio.Task[None]) -> None:
        """If the task raised instead of reporting a result, nobody else would answer the client."""
        if not agreeing.cancelled() and isinstance(problem := agreeing.exception(), Exception):
            self._owner.crashed(problem)

    def _go(self, where: Route) -> None:
        if not isinstance(where, ThisHost):
            self._hosts.sent(where.host, self._model)
            self._at = where
        self._send_to(where)
