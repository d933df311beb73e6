"""The relay: listens, and drains its connections on shutdown."""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING

from hotseat.relay.context import Context
from hotseat.relay.downstream.connections import Connections
from hotseat.relay.downstream.listener import Listener, PlainAdmission, TlsAdmission
from hotseat.tasks import Tasks

if TYPE_CHECKING:
    import socket
    import ssl

    from hotseat.activity.recent import Activity
    from hotseat.activity.usage_store import UsageCounter
    from hotseat.dispatch.dispatcher import Dispatcher
    from hotseat.identifiers import Address, Seconds
    from hotseat.relay.access.policy import Policy
    from hotseat.state.audit_file import AuditFile

log = logging.getLogger(__name__)


class Relay:
    def __init__(
        self,
        dispatcher: Dispatcher,
        policy: Policy,
        management: Address,
        activity: Activity,
        usage: UsageCounter,
        *,
        most_connections: int | None = None,
        audit_file: AuditFile | None = None,
    ) -> None:
        """`most_connections`: how many fit into the process's file descriptors; None: any number."""
        self.context = Context(dispatcher, policy, management, activity, usage, audit_file, most_connections)
        self._ollamas: Context | None = None
        """Of the connections to the address for Ollama's clients; None: there is none."""
        self.connections = Connections(self.context)
        self._tasks = Tasks()
        """Connections that were accepted and are not reported yet, and TLS handshakes."""
        self._listeners: list[Listener] = []

    async def listen(self, sockets: list[socket.socket], tls: ssl.SSLContext | None = None) -> None:
        self.context.scheme = b"http" if tls is None else b"https"
        plain = PlainAdmission(self.context, self.connections, self._tasks)
        admission = plain if tls is None else TlsAdmission(self.context, self.connections, self._tasks, tls)
        self._listeners += [Listener(sock, admission.admit) for sock in sockets]

    async def listen_as_ollama(self, sockets: list[socket.socket]) -> None:
        """At the address for Ollama's clients: the same rules, and plain HTTP."""
        self._ollamas = self.context.at_ollamas_address()
        admission = PlainAdmission(self._ollamas, self.connections, self._tasks)
        self._listeners += [Listener(sock, admission.admit) for sock in sockets]

    async def drain(self, within: Seconds) -> None:
        """Stop accepting; return when every client is gone, after `within` seconds at the latest."""
        self.context.closes_idle = True
        self._stop_accepting()
        await self.connections.drain(within)

    async def finish(self, within: Seconds, management: Address) -> None:
        """Another process accepts from now on: serve the open connections until their clients leave.

        An idle client may send one more request: closing its connection could cross with it. `management` is the API
        of the other process.
        """
        self.context.management = management
        self._stop_accepting()
        if accepted := list(self._tasks):
            await asyncio.wait(accepted, timeout=self.context.policy.limits.header_timeout_s)
        await self.connections.drain(within)

    def _stop_accepting(self) -> None:
        self.context.is_draining = True
        self._close_listeners()

    async def aclose(self) -> None:
        self._close_listeners()
        await self._tasks.aclose()
        self.connections.close()
        await self.context.pool.aclose()

    def _close_listeners(self) -> None:
        for listener in self._listeners:
            listener.close()

    def change_policy(self, policy: Policy) -> None:
        """Apply a new policy, also to requests in progress that have no key, or one that no longer allows them."""
        self.context.policy = policy
        if self._ollamas is not None:
            self._ollamas.policy = policy.at_ollamas_address()
        if ended := self.connections.judge_again():
            log.warning("requests were aborted because the API keys no longer allow them count=%d", ended)
