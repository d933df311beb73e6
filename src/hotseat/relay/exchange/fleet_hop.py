"""Routes a request to a fleet host: selects it, waits for agreement if needed, and retries if it refuses.

A host that refused a request is excluded for a while, and one that could not start the model is not asked again, so
this ends: with another host, this one, or an error.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Protocol

from hotseat.dispatch.tickets import Waiter
from hotseat.error_bodies import one_line
from hotseat.errors import FleetDisconnected, HostUnresponsive, HotseatError, LoadFailed
from hotseat.fleet.claims import THIS_HOST_LEAVES
from hotseat.fleet.roster import LONGEST_REASON
from hotseat.fleet.route import OtherHost

if TYPE_CHECKING:
    import asyncio
    from collections.abc import Callable

    from hotseat.dispatch.dispatcher import Dispatcher
    from hotseat.fleet.host_selector import HostSelector
    from hotseat.fleet.route import Route
    from hotseat.identifiers import ClientId, HostName, ModelName, TicketId
    from hotseat.relay.http.response_head import ResponseHead


class RoutedRequest(Waiter, Protocol):
    def run(self, step: Callable[[], object]) -> None:
        """Report to the client what the step raises: the callers here are callbacks, which could not."""

    @property
    def was_sent(self) -> bool: ...

    def last_received(self) -> object:
        """The last data from its upstream; None if there is none."""


class FleetHop:
    def __init__(
        self,
        hosts: HostSelector,
        dispatcher: Dispatcher,
        request: RoutedRequest,
        model: ModelName,
        client: ClientId,
        send_to: Callable[[Route], None],
    ) -> None:
        self._hosts, self._dispatcher, self._request = hosts, dispatcher, request
        self._model, self._client, self._send_to = model, client, send_to
        self.ticket: TicketId | None = None
        """Operators list and cancel it by this number, unless it is served here: then it has one of the scheduler's."""
        self._at: OtherHost | None = None
        self._agreeing: asyncio.Task[None] | None = None
        self._refusal: HotseatError | None = None
        """Why the last host that was tried could not serve it."""
        self._tried: set[HostName] = set()
        """Hosts that could not start the model, and this one if it stops: at most all of the fleet."""

    def find(self) -> None:
        """The request is then sent, waiting for an agreement, or refused, whatever goes wrong."""
        self._request.run(self._find)

    def _find(self) -> None:
        where: Route | HotseatError | None
        try:
            where = self._hosts.select(self._model, self._client, self._tried)
        except HotseatError as nobody:
            where = nobody
        if where is not None:
            return self._go(where)
        self._take_ticket()
        self._agreeing = self._hosts.claim_and_select(self._model, self._client, self._agreed, self._tried)
        return self._agreeing.add_done_callback(self._agreement_ended)

    def _agreed(self, where: Route | HotseatError) -> None:
        self._agreeing = None
        self._request.run(partial(self._go, where))

    def _agreement_ended(self, agreeing: asyncio.Task[None]) -> None:
        """If the task ended without reporting a result, nobody else would answer the client."""
        if not agreeing.cancelled():
            self._request.run(agreeing.result)
        elif agreeing is self._agreeing:  # not by us: this host leaves the fleet
            self._agreed(FleetDisconnected(THIS_HOST_LEAVES))

    def _go(self, where: Route | HotseatError) -> None:
        if isinstance(where, HotseatError):
            raise self._refusal or where
        if isinstance(where, OtherHost):
            self._take_ticket()
            self._hosts.sent(where, self._model, self)
            self._at = where
        else:
            self._return_ticket()
        self._send_to(where)

    @property
    def host(self) -> HostName | None:
        """The host that it was forwarded to; None: it waits for an agreement, or is served here."""
        return None if self._at is None else self._at.host

    def _take_ticket(self) -> None:
        if self.ticket is None:
            self.ticket = self._dispatcher.tickets.enter(self._request)

    def _return_ticket(self) -> None:
        ticket, self.ticket = self.ticket, None
        if ticket is not None:
            self._dispatcher.tickets.remove(ticket)

    def is_turned_away(self, head: ResponseHead) -> bool:
        """Did the host do nothing for it? Else record what it reports about itself, for later requests."""
        if self._at is None or head.is_turned_away:
            return self._at is not None
        if head.is_failed_start:
            self._hosts.failed(self._at.host, self._model)
        if (load := head.queue_length) is not None:
            self._hosts.note_load(self._at.host, self._model, load)
        return False

    def turned_away(self, unproven: str = "", unreachable: str = "") -> None:
        """The host did nothing for it, perhaps because it rejected our proof: try the next one."""
        assert self._at is not None
        if unproven:
            self._hosts.disbelieved(self._at.host, unproven)
        self._hosts.turned_away(self._at.host, self._model, one_line(unproven or unreachable, LONGEST_REASON))
        self._leave_host()
        self.find()

    def last_received(self) -> object:
        return self._request.last_received()

    def host_is_silent(self) -> None:
        """It stopped answering. It may have executed the request, so no other host gets it.

        One that was not sent gets another host as soon as the time for connecting is over.
        """
        if self._request.was_sent:
            self._request.run(self._give_up)

    def _give_up(self) -> None:
        assert self._at is not None
        raise HostUnresponsive(f"{self._at.host}, to which this request was forwarded, stopped answering.")

    def refused_here(self, error: HotseatError) -> None:
        """This host stops, or cannot start the model: another one gets it, if one can."""
        self._try_another(self._hosts.name, error)

    def not_loaded(self, error: LoadFailed) -> None:
        """The other host cannot start the model."""
        assert self._at is not None
        host = self._at.host
        self._leave_host()
        self._try_another(host, error)

    def _try_another(self, host: HostName, error: HotseatError) -> None:
        if isinstance(error, LoadFailed):
            self._hosts.failed(host, self._model)
        self._tried.add(host)
        self._refusal = error
        self.find()

    def broke_off(self) -> None:
        """Its connection was closed without a response."""
        if self._at is not None:
            self._hosts.suspect(self._at.host, "it closed a connection instead of answering")

    def come_back(self) -> None:
        """The request is over. Safe to call twice."""
        if self._agreeing is not None:
            self._agreeing.cancel()
            self._agreeing = None
        self._return_ticket()
        self._leave_host()

    def _leave_host(self) -> None:
        if self._at is not None:
            self._hosts.came_back(self._at.host, self._model, self)
            self._at = None
