"""This host as a fleet node: publishes its state, tracks the others, and serves them.

Connects the dispatcher, which owns the state of this host, to the fleet. A host without a fleet does not use it.
"""

from __future__ import annotations

import asyncio
import secrets
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

from hotseat import __version__
from hotseat.catalog.named_models import FleetModel
from hotseat.fleet.admin import FleetAdmin
from hotseat.fleet.drift import Drifts
from hotseat.fleet.host_record import Identity, catalog_record, digest_of, host_record
from hotseat.fleet.host_selector import HostSelector
from hotseat.fleet.membership import Membership
from hotseat.fleet.missing_files import MissingFiles
from hotseat.fleet.name_owner import token_hash
from hotseat.fleet.open_store import open_store
from hotseat.fleet.other_hosts import FleetClient, HostHttp
from hotseat.fleet.own_state import UnsavedState, order_of
from hotseat.fleet.proofs import FleetSecret, SignedStore, Signer
from hotseat.fleet.reconciler import Reconciler
from hotseat.fleet.roster import Roster
from hotseat.fleet.store import Bucket
from hotseat.fleet.view import FleetConnection, orders_in
from hotseat.scheduling.events import FleetModelsChanged, RequestArrived, RequestLeft, UpstreamFailed
from hotseat.tasks import Tasks

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable

    from hotseat.catalog.catalog import Catalog
    from hotseat.dispatch.dispatcher import Dispatcher
    from hotseat.dispatch.journal import Entry
    from hotseat.fleet.moves import FleetClient as SpeaksWithHosts
    from hotseat.fleet.own_state import OwnState
    from hotseat.fleet.records import CatalogRecord, HostRecord
    from hotseat.fleet.store import Change, Store
    from hotseat.identifiers import Instant, ModelName, Seconds
    from hotseat.settings import Fleet

FRESH_S: Seconds = 0.1
"""Maximum age of this host's own record when it places a request."""


class FleetNode:
    def __init__(
        self,
        settings: Fleet,
        store: Store,
        dispatcher: Dispatcher,
        is_leaving: Callable[[], bool],
        fleet_client: SpeaksWithHosts | None = None,
        own: OwnState | None = None,
    ) -> None:
        self._settings = settings
        self._dispatcher = dispatcher
        self._is_leaving = is_leaving
        self._clock = asyncio.get_running_loop().time
        self._tasks = Tasks()
        """What requests in progress need: agreements, and checks of the hosts that they were forwarded to."""
        self._duties = Tasks()
        """What this host does for the fleet without a request."""
        self._is_replaced = False
        """Another process of this host is the member: this one learns what its requests in progress need, no more."""
        self._own = own or UnsavedState()
        self._identity = identity_of(settings, self._own.token)
        self._described: Catalog | None = None
        self._offers: CatalogRecord
        self._digest = ""
        self._seen_at: Instant = float("-inf")
        self._catalogs: frozenset[str] = frozenset()
        self._drifts = Drifts()
        self._missing_files = MissingFiles(lambda: dispatcher.catalog, self.notify)
        self._secret = FleetSecret(settings.secrets, settings.prefix)
        self.roster = Roster(settings.name, order_of(self._own))
        self.store = store = SignedStore(store, self._secret)
        signer = Signer(self._secret)
        http = HostHttp(settings.name, signer)
        fleet_client = fleet_client or FleetClient(http)
        self.host_selector = HostSelector(
            self.roster, store, signer, self._tasks, self._clock, self.look_at_ourselves, fleet_client.path_to
        )
        self._reconciler = Reconciler(self.roster, store, self.host_selector, self, self._duties, self._clock)
        self._membership = Membership(store, self.describe, lambda: self._offers, self._on_change)
        self.fleet_admin = FleetAdmin(self.roster, store, self.host_selector, self, fleet_client, http, self._clock)

    @property
    def connection(self) -> FleetConnection:
        return self._membership.connection

    @property
    def problem(self) -> str:
        """Why this host is disconnected; empty while it is not."""
        return self._membership.problem

    async def join(self) -> None:
        await self._missing_files.look_first()
        self.look_at_ourselves(at_once=True)
        await self._membership.join()
        self._duties.start(self._missing_files.keep_looking(), "look for the files of models")
        self._duties.start(self._reconciler.keep_going(), "reconcile the fleet")
        self._tasks.start(self.host_selector.forwarded.keep_checking(), "check hosts with forwarded requests")

    async def fall_silent(self) -> None:
        """Another process of this host takes its name, and does from now on what a member does.

        Until `leave`, hosts still agree about the requests in progress here, and the hosts that serve them are watched.
        """
        self._is_replaced = True
        self.roster.follow_own_record()
        await self._membership.fall_silent()
        await self._duties.aclose()
        await self._own.saved()

    async def remove_record(self) -> None:
        """Unless the new process has replaced it."""
        await self._membership.remove_record()

    async def leave(self) -> None:
        await self._membership.leave()
        await self._duties.aclose()
        await self._tasks.aclose()
        await self._own.saved()

    def watch(self, entry: Entry) -> None:
        """A journal listener. Anything except plain request arrivals and departures may matter to other hosts."""
        if not isinstance(entry.event, RequestArrived | RequestLeft) or entry.commands:
            self.notify()
        if isinstance(entry.event, UpstreamFailed) or getattr(entry.event, "missing", None):
            self._missing_files.look_soon()

    def notify(self) -> None:
        """Something that other hosts should know has changed."""
        self._seen_at = float("-inf")
        self._membership.notify()

    # Our own state

    def describe(self) -> HostRecord:
        catalog = self._dispatcher.catalog
        if catalog is not self._described:
            self._described, self._offers = catalog, catalog_record(catalog)
            self._digest = digest_of(self._offers, self._secret.fingerprint)
            self._missing_files.look_soon()
        view = self._dispatcher.views.current()
        return host_record(
            self._identity,
            self._settings.labels,
            view,
            catalog,
            self._digest,
            is_leaving=self._is_leaving(),
            missing_files=self._missing_files.by_model,
            released=self._reconciler.drain.released,
            unreachable=self.roster.unreachable(self._clock()),
        )

    def look_at_ourselves(self, *, at_once: bool = False) -> None:
        now = self._clock()
        if at_once or now - self._seen_at >= FRESH_S:
            self._seen_at = now
            if self.connection is FleetConnection.CONNECTED:  # else nobody could renew a lease
                self.roster.hosts.settle(now)
            if not self._is_replaced:
                self.roster.here(self.describe(), self._offers, now)
                self._follow_roster()

    async def load(self, model: ModelName) -> None:
        await self._dispatcher.operator.load(model)

    async def unload(self, model: ModelName) -> None:
        await self._dispatcher.operator.unload(model)

    # State of the others

    def _on_change(self, bucket: Bucket, change: Change) -> None:
        self.roster.apply(bucket, change, self._clock())
        if not self._is_replaced:
            self._act_on(bucket, change)

    def _act_on(self, bucket: Bucket, change: Change) -> None:
        self._reconciler.on_change(bucket, change)
        if bucket is Bucket.ORDERS:
            order = self.roster.orders.of(self.roster.me)
            self._own.keep_orders(frozenset(each.value for each in orders_in(order)), order.given_ms)
        if bucket in (Bucket.HOSTS, Bucket.CATALOGS):
            self._follow_roster()

    def _follow_roster(self) -> None:
        catalogs = self.roster.names.catalogs()
        if catalogs != self._catalogs:
            self._catalogs = catalogs
            self._register_fleet_models()
        self._drifts.look(self.roster)

    def _register_fleet_models(self) -> None:
        """Register the names of models that only other hosts have: a host that restarts still has its models."""
        own = self._dispatcher.catalog
        names = {**dict(self.roster.names.expected()), **dict(self.roster.names.present())}
        fleet_models = {name: FleetModel(model) for name, model in sorted(names.items()) if own.find(name) is None}
        if fleet_models != own.fleet_models:
            self._dispatcher.tell(FleetModelsChanged(fleet_models))


def identity_of(settings: Fleet, token: str) -> Identity:
    boot, hashed = secrets.token_hex(8), token_hash(token, settings.name)
    return Identity(settings.name, settings.address, boot, __version__, hashed)


@asynccontextmanager
async def joined(
    settings: Fleet, dispatcher: Dispatcher, is_leaving: Callable[[], bool], own: OwnState
) -> AsyncIterator[FleetNode]:
    """Inside the block this host is a member of the fleet."""
    async with open_store(settings) as store:
        node = FleetNode(settings, store, dispatcher, is_leaving, own=own)
        try:
            await node.join()
            yield node
        finally:
            await node.leave()
