"""What a request holds and counts for: its lease, its key's usage, its place at a peer or host, the memory of its body.

`close` gives all of it back and records the request. It may be called again: each resource is given back once, even if
giving back another one raised.
"""

from __future__ import annotations

import logging
from dataclasses import dataclass
from enum import Enum
from typing import TYPE_CHECKING

from hotseat.activity.recent import Tokens
from hotseat.relay.exchange import token_estimate, tracing
from hotseat.relay.exchange.token_usage import tokens_in
from hotseat.relay.routing.model_name import BARE_ADDRESS
from hotseat.scheduling.events import PromptProcessed
from hotseat.tasks import attempt

if TYPE_CHECKING:
    import asyncio
    from collections.abc import Sequence

    from hotseat.activity.usage import Account, KeyUse
    from hotseat.identifiers import Instant, ModelName, Seconds, TicketId
    from hotseat.relay.context import Context
    from hotseat.relay.exchange.fleet_hop import FleetHop
    from hotseat.relay.exchange.request import Request
    from hotseat.relay.exchange.token_estimate import Response

log = logging.getLogger(__name__)

BAD_REQUEST = 400
NO_TOKENS = Tokens(0, 0, None)
"""Of a request that the model server refused."""


class Outcome(Enum):
    """How a request ended, as its upstream saw it."""

    NOT_SENT = "not sent"
    CUT = "cut"
    ANSWERED = "answered"
    """The response was complete."""


@dataclass(slots=True, eq=False, repr=False)
class Accounting:
    _context: Context
    _request: Request
    _peer: str
    key_use: KeyUse | None
    """Its entry in the usage of its key; None if no keys are configured."""
    model: ModelName | None = None
    """None for requests to hotseat itself."""
    ticket: TicketId | None = None
    hop: FleetHop | None = None
    """Its routing in the fleet; None without a fleet, or if a fleet host forwarded it."""
    tokens: Tokens | None = None
    """As the model server reported them in its whole response."""
    estimated: int = 0
    """Tokens that it did not report."""
    granted_at: Instant | None = None
    waited_for: str = ""
    """The reason why it was not granted at once."""
    first_byte_at: Instant | None = None
    limit: asyncio.TimerHandle | None = None
    """The end of the time for which it may use the model."""
    is_audited: bool = False
    """Does the audit have a line of its beginning?"""
    _peer_model: ModelName | None = None
    _is_recorded: bool = False

    @property
    def number(self) -> TicketId | None:
        """The ticket by which operators list and cancel it; None: it has none."""
        return self.ticket if self.ticket is not None or self.hop is None else self.hop.ticket

    @property
    def budget_lines(self) -> bytes:
        """Header lines that tell the client what is left of its budgets; empty if it has none."""
        if self.key_use is None or not self.key_use.account.budgets:
            return b""
        return "".join(f"{field}\r\n" for field in self.key_use.account.budgets.fields()).encode()

    # What it holds

    def charge(self, account: Account, model: str) -> None:
        """Count it among the requests of its key; raises if that exceeds a limit, or the key may not use the model."""
        if self.key_use is None:
            self.key_use = account.enter(model)
        else:  # counted before its body was read
            account.check_may_use(model)
            self.key_use.model = model

    def open_feed(self) -> None:
        """Count an endless response for its key, and for all callers below the role `operate`; raises if too many."""
        verdict = self._request.verdict
        if verdict.account is not None:
            self.key_use = verdict.account.admit()
        if not verdict.is_privileged(self._request.destination.rule.role):
            policy, client = self._context.policy, self._request.client
            self._context.places.open_feed(self, client, policy.limits, is_proxy=policy.trusts(client))

    def use_devices(self, count: int) -> None:
        """Charge the key for the time of so many devices, from now on."""
        assert self.key_use is not None
        assert self.model is not None
        meter = self._context.policy.accounts.meter(self.model)
        self.key_use.granted(meter, count, self._context.now())

    def sent_to_peer(self, model: ModelName) -> None:
        self._context.peer_requests[model] += 1
        self._peer_model = model
        self.granted_at = self._context.now()

    def return_lease(self) -> None:
        """It asks again, because the server could not be reached."""
        ticket, self.ticket = self.ticket, None
        if ticket is not None:
            self._context.dispatcher.leave(ticket)

    # The end

    def answered(self, pieces: Sequence[bytes], response: Response | None) -> None:
        """The response is complete; these are its first and last parts."""
        tokens = self.tokens = tokens_in(pieces)
        if (tokens is None or None in tokens[:2]) and response is not None and self._computes:
            path = self._request.destination.target.partition(b"?")[0]
            self.estimated = token_estimate.of_complete(tokens, path, self._of_prompt, response, pieces)

    def cut(self, response: Response | None, *, by_client: bool) -> None:
        """A server that has failed before it responded has no tokens to charge for."""
        if response is None or not self._computes:
            return
        if response.pieces:
            path = self._request.destination.target.partition(b"?")[0]
            self.estimated = token_estimate.of_cut(path, self._of_prompt, response)
        elif by_client:
            self.estimated = self._of_prompt()

    @property
    def _computes(self) -> bool:
        return self.model is not None and self._request.destination.rule.takes_slot

    def _of_prompt(self) -> int:
        """Estimated tokens; none of forms, which contain recordings and images."""
        body = self._request.body
        if body.form is not None:
            return 0
        if body.is_spooled:
            return body.size // token_estimate.BYTES_PER_TOKEN
        return token_estimate.of_prompt(body.whole())

    def close(self, status: int, now: Instant, outcome: Outcome) -> None:
        is_answered = outcome is Outcome.ANSWERED
        if (tracer := self._context.tracer) is not None and not self._is_recorded:
            attempt(tracing.note_end, self._context, tracer, self._request, self, status, now)
        if self.limit is not None:
            self.limit.cancel()
        try:
            if self.ticket is not None:
                if is_answered and self.tokens is not None and self.tokens.cached is not None:
                    attempt(self._report_prompt, self.ticket, self.tokens, self.tokens.cached)
                self._context.dispatcher.leave(self.ticket, is_answered)
        finally:
            self._uncount(now)
        if not self._is_recorded:
            self._is_recorded = True
            self._record(status, now, outcome)

    def _report_prompt(self, ticket: TicketId, tokens: Tokens, cached: int) -> None:
        """Before the lease ends, which says to which server the ticket belongs."""
        if tokens.prompt is not None:
            computed, generated = tokens.prompt - cached, tokens.completion or 0
            prompt = PromptProcessed(ticket, computed, cached, tokens.prompt_s or 0.0, generated)
            self._context.dispatcher.prompt_processed(prompt)

    def _uncount(self, now: Instant) -> None:
        """At another host, for its key, at a peer, among the bodies."""
        if self.hop is not None:
            attempt(self.hop.come_back)
        if self.key_use is not None:
            attempt(self.key_use.ended, now, self.tokens, self.estimated)
        self._context.places.feeds.pop(self, None)
        if self._peer_model is not None:
            self._context.peer_requests[self._peer_model] -= 1
            self._peer_model = None
        body = self._request.body
        if body.counted or body.counted_on_disk or body.is_spooled:
            attempt(self._context.bodies.forget, body)

    def _record(self, status: int, now: Instant, outcome: Outcome) -> None:
        request = self._request
        try:
            if self.is_audited:
                self._context.audit.end(request, self._peer, status)
            if self.model is not None and request.destination.kind is not BARE_ADDRESS:
                began, granted_at, first_byte_at = request.began, self.granted_at, self.first_byte_at
                waited = (now if granted_at is None else granted_at) - began
                first_byte = None if first_byte_at is None else first_byte_at - began
                self._context.activity.finished(
                    self.model, status, waited, first_byte, now - began, request.client, request.head, request.id,
                    self.tokens, self.waited_for,
                )  # fmt: skip
                if outcome is not Outcome.NOT_SENT:
                    self._count_usage(self.model, status, outcome)
        except Exception:  # from logs or metrics: the client gets its response anyway
            log.exception("internal error request=%s", request.id.decode())

    def _count_usage(self, model: ModelName, status: int, outcome: Outcome) -> None:
        """In a fleet, only at the host that the client asked: the one that serves it does not know the key."""
        tokens, request = self.tokens, self._request
        if request.verdict.from_host or (tokens is None and not request.destination.rule.takes_slot):
            return
        if tokens is None and outcome is Outcome.ANSWERED and status >= BAD_REQUEST:
            tokens = NO_TOKENS
        self._context.usage.count(model, request.verdict.holder, tokens, self.estimated)

    def waited_s(self, now: Instant) -> Seconds:
        return (now if self.granted_at is None else self.granted_at) - self._request.began
