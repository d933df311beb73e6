"""What connections and exchanges share. It knows neither: imports point from them to here."""

from __future__ import annotations

import asyncio
import secrets
from collections import Counter
from typing import TYPE_CHECKING, Any, NamedTuple

from hotseat.activity.usage import as_told_to
from hotseat.error_bodies import Dialect, answer
from hotseat.errors import HotseatError
from hotseat.relay.access.api_keys import UNTOUCHED
from hotseat.relay.access.audit import Audit
from hotseat.relay.access.host_requests import refusal_for_host
from hotseat.relay.access.wrong_keys import WrongKeys
from hotseat.relay.downstream.admission import HeadCache
from hotseat.relay.downstream.limits import Bodies, ConnectionCount
from hotseat.relay.http.request_id import numbered
from hotseat.relay.routing.paths import dialect_for
from hotseat.relay.upstream.pool import Pool

if TYPE_CHECKING:
    from hotseat.activity.recent import Activity
    from hotseat.activity.usage_store import UsageCounter
    from hotseat.dispatch.dispatcher import Dispatcher
    from hotseat.fleet.host_selector import HostSelector
    from hotseat.identifiers import Address, ModelName
    from hotseat.relay.access.policy import Policy
    from hotseat.relay.exchange.request import Request
    from hotseat.relay.http.body import Body
    from hotseat.relay.http.request_head import RequestHead
    from hotseat.state.audit_file import AuditFile
    from hotseat.tracing.tracer import Tracer


class Reply(NamedTuple):
    """A complete response of our own; sent in order like any other."""

    data: bytes
    keep_alive: bool


class Context:
    def __init__(
        self,
        dispatcher: Dispatcher,
        policy: Policy,
        management: Address,
        activity: Activity,
        usage: UsageCounter,
        audit_file: AuditFile | None = None,
        most_connections: int | None = None,
    ) -> None:
        loop = asyncio.get_running_loop()
        self.now = loop.time
        self.later = loop.call_later
        self.dispatcher = dispatcher
        self.policy = policy
        """Replaced as a whole when the configuration changes."""
        self.management = management
        self.activity = activity
        self.usage = usage
        self.pool = Pool()
        self.hosts: HostSelector | None = None
        """The fleet; None if this host is in none."""
        self.tracer: Tracer | None = None
        """None: requests are not traced, and a client's `traceparent` passes as it is."""
        self.new_id = numbered()
        self.via = b"1.1 hotseat-%b" % secrets.token_hex(8).encode()
        """Names this process in the `Via` of requests to peers, so that it knows those that come back."""
        self.scheme = b"http"
        self.is_draining = False
        """Every response ends its connection."""
        self.closes_idle = False
        """Connections without a request are closed at once."""
        self.places = ConnectionCount(most_connections)
        self.bodies = Bodies()
        self.peer_requests: Counter[ModelName] = Counter()
        """Requests at models of peers."""
        self.wrong_keys = WrongKeys(self.now, self.later)
        self.audit = Audit(audit_file, self.now, self.later)
        self.heads = HeadCache(policy, dispatcher.catalog)

    def at_ollamas_address(self) -> Context:
        """For the connections of another listener."""
        return _OllamasContext(self)

    def check_space(self, body: Body, peer: str) -> None:
        """Count what this body takes; raises if all of them together take too much."""
        self.bodies.count(body)
        # A proxy that names a client says that the body is not its own, whatever address the client has.
        is_proxy = body.sender == peer and self.policy.trusts(peer)
        self.bodies.check(body, self.policy.limits, is_proxy=is_proxy)

    def refusal(
        self,
        error: HotseatError,
        head: RequestHead | None,
        *,
        keep_alive: bool,
        request_id: bytes = b"",
        peer: str = "",
    ) -> Reply:
        """In the error format that the client expects, as far as its head can be read; counts it.

        `peer` is for the audit; empty: that has lines about this request anyway.
        """
        if head is None:
            self.activity.refused(error.code)
            return Reply(answer(error, Dialect.TEXT, request_id=self.new_id(), close=not keep_alive), keep_alive)
        error = refusal_for_host(as_told_to(self.policy.sender(head).account, error), head)
        self.activity.refused(error.code)
        request_id = request_id or head.request_id or self.new_id()
        if peer and self.policy.has_secrets:
            counted = self.policy.client_of(head, UNTOUCHED, peer)
            self.audit.refused(error, self.policy.sender(head), head, peer, counted, request_id)
        dialect, is_head = dialect_for(head, self.policy.error_format), head.method == b"HEAD"
        response = answer(error, dialect, request_id=request_id, close=not keep_alive, head_only=is_head)
        if head.http10 and keep_alive:  # else its client waits for the end of the connection
            response = response.replace(b"\r\n", b"\r\nConnection: keep-alive\r\n", 1)
        return Reply(self.policy.cors.readable(response, head), keep_alive)

    def objection(self, request: Request, peer: str, model: str = "") -> HotseatError | None:
        """The error if the policy rejects a request that an earlier one admitted."""
        if request.verdict.from_host:  # its proof is valid once, and the other host knows the client
            return None
        try:
            verdict = self.policy.identify_again(request.verdict, request.head, peer)
            self.policy.check_may_ask(verdict, request.destination)
            if verdict.account is not None and model:
                verdict.account.check_may_use(model)
        except HotseatError as error:
            return error
        return None

    def objection_before_start(self, request: Request, peer: str) -> HotseatError | None:
        """The same for a request that has not begun: if it sent a key that is new, it has the limits of that key."""
        error = self.objection(request, peer)
        if error is None and request.verdict.is_anonymous:
            request.sent_by(self.policy.identify(request.head))
        return error

    def forget(self, request: Request) -> None:
        """Release a request that ends before it began: its client left, or the rest of it is not read."""
        self.bodies.forget(request.body)
        if request.key_use is not None:
            request.key_use.ended(self.now())


class _OllamasContext(Context):
    """Has its own rules, and what is known of heads. All else is asked of the shared context each time: it changes."""

    def __init__(self, shared: Context) -> None:
        self._shared = shared
        self.scheme = b"http"
        self.policy = shared.policy.at_ollamas_address()
        self.heads = HeadCache(self.policy, shared.dispatcher.catalog)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._shared, name)
