"""Two hosts on a real NATS server that is killed and restarted."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from tests.support.fleets import OPERATION_S, fleet_at
from tests.support.nats import nats_servers
from tests.support.waiting import PATIENCE_S, come_true

from hotseat.fleet.backoff import Backoff
from hotseat.fleet.jetstream.store import JetStream
from hotseat.fleet.membership import Membership
from hotseat.fleet.records import CatalogRecord, HostRecord
from hotseat.fleet.store import BegunAnew, Bucket, Removed, Written
from hotseat.fleet.view import FleetConnection
from hotseat.identifiers import HostName

if TYPE_CHECKING:
    from pathlib import Path

    from hotseat.fleet.store import Change


FLEETS = [{"one", "three"}, {"one", "two"}, {"one", "two"}, {"one", "three"}]


class Host:
    def __init__(self, store: JetStream, name: str) -> None:
        self.store = store
        self.changes: list[tuple[Bucket, Change]] = []
        record = HostRecord(HostName(name), f"http://{name}:8080", "first", "digest")
        self.membership = Membership(store, lambda: record, lambda: CatalogRecord({}), self.collect)

    def collect(self, bucket: Bucket, change: Change) -> None:
        self.changes.append((bucket, change))

    def last_of(self, name: str) -> Change | None:
        found = [change for _, change in self.changes if isinstance(change, Written | Removed) and change.key == name]
        return found[-1] if found else None

    def names(self) -> set[str]:
        """Hosts that it has ever heard of."""
        return {change.key for bucket, change in self.changes if bucket is Bucket.HOSTS and isinstance(change, Written)}

    def begun_anew(self) -> set[Bucket]:
        return {bucket for bucket, change in self.changes if isinstance(change, BegunAnew)}


async def test_fleets_with_different_prefixes_do_not_see_each_other(tmp_path: Path) -> None:
    """Each has its own buckets on the same server, so hosts of both may even have the same name."""
    async with nats_servers(tmp_path) as (server,):
        production, staging = fleet_at(server), replace(fleet_at(server), prefix="staging")
        of = [(production, "one"), (staging, "one"), (staging, "two"), (production, "three")]
        hosts = [Host(JetStream(fleet, patience_s=OPERATION_S), name) for fleet, name in of]
        try:
            for each in hosts:
                each.store.open()
                assert await each.store.until_connected(PATIENCE_S)
                await each.membership.join()
            await come_true(lambda: [host.names() for host in hosts] == FLEETS)
            assert all(host.membership.connection is FleetConnection.CONNECTED for host in hosts)
        finally:
            for each in hosts:
                await each.membership.leave()
                await each.store.aclose()

    assert [host.names() for host in hosts] == FLEETS


async def test_hosts_know_of_each_other_before_and_after_nats_died(tmp_path: Path) -> None:
    """Both notice the disconnection and reconnect by themselves, and one learns when the other leaves."""
    async with nats_servers(tmp_path) as (server,):
        stores = [
            JetStream(fleet_at(server), heartbeat_s=0.4, pauses=lambda: Backoff(0.05, 0.2), patience_s=OPERATION_S)
            for _ in range(2)
        ]
        here, there = hosts = Host(stores[0], "here"), Host(stores[1], "there")
        try:
            for each in hosts:
                each.store.open()
                assert await each.store.until_connected(PATIENCE_S)
                await each.membership.join()
            await come_true(lambda: isinstance(here.last_of("there"), Written))
            server.kill()
            await come_true(lambda: all(each.membership.connection is FleetConnection.DISCONNECTED for each in hosts))
            here.changes.clear()
            server.start()
            await come_true(lambda: all(each.membership.connection is FleetConnection.CONNECTED for each in hosts))
            await come_true(lambda: here.begun_anew() == set(Bucket))
            await come_true(lambda: isinstance(here.last_of("there"), Written))
            await there.membership.leave()
            await come_true(lambda: isinstance(here.last_of("there"), Removed))
        finally:
            for each in hosts:
                await each.membership.leave()
                await each.store.aclose()
