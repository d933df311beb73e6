"""What only the NATS engine provides: buckets, logins, reconnection and cleanup."""

from __future__ import annotations

import asyncio
import logging
from collections import Counter
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import nats
import pytest
import uvloop
from nats.js.api import StorageType
from tests.support.certificate import CERTIFICATE
from tests.support.fleets import OPERATION_S, Watching, fleet_at
from tests.support.nats import nats_servers
from tests.support.nats_jwt import operator_mode
from tests.support.waiting import PATIENCE_S, come_true, come_true_async

from hotseat.fleet.backoff import Backoff
from hotseat.fleet.jetstream import watch_session
from hotseat.fleet.jetstream.buckets import _config, stream_of, subject_of
from hotseat.fleet.jetstream.link import Link
from hotseat.fleet.jetstream.store import JetStream
from hotseat.fleet.store import LIVES_S, BegunAnew, Bucket, CaughtUp, Conflict, StoreError
from hotseat.identifiers import HostName
from hotseat.settings import Fleet, NatsLogin
from hotseat.tasks import Tasks

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Coroutine
    from pathlib import Path

    from nats.js import JetStreamContext
    from tests.support.nats import NatsServer


LONG_LEASES = {**LIVES_S, Bucket.HOSTS: 600.0, Bucket.CLAIMS: 600.0}
"""On a busy machine, the election of a leader takes longer than the usual lease."""


@asynccontextmanager
async def connected(fleet: Fleet, **options: Any) -> AsyncIterator[JetStream]:
    store = JetStream(fleet, pauses=lambda: Backoff(0.05, 0.2), **{"patience_s": OPERATION_S, **options})
    store.open()
    try:
        assert await store.until_connected(PATIENCE_S)
        yield store
    finally:
        await store.aclose()


@asynccontextmanager
async def other_client(server: NatsServer) -> AsyncIterator[JetStreamContext]:
    """Somebody else who looks into NATS."""
    client = await nats.connect(server.url)
    try:
        yield client.jetstream(timeout=PATIENCE_S)
    finally:
        await client.close()


# Buckets


async def test_buckets_live_as_long_as_the_design_says(tmp_path: Path) -> None:
    """Each bucket has its documented lifetime, one value per key, delete markers, and one copy on one server."""
    async with nats_servers(tmp_path) as (server,), connected(fleet_at(server)), other_client(server) as js:
        made = {bucket: (await js.stream_info(stream_of(bucket))).config for bucket in Bucket}

    assert {bucket: config.max_age or None for bucket, config in made.items()} == LIVES_S
    assert {config.num_replicas for config in made.values()} == {1}
    assert {config.max_msgs_per_subject for config in made.values()} == {1}
    assert all(config.subject_delete_marker_ttl for config in made.values())


async def test_nats_own_tools_understand_the_buckets(tmp_path: Path) -> None:
    """NATS' own key-value API reads what a host wrote."""
    async with nats_servers(tmp_path) as (server,), connected(fleet_at(server)) as store, other_client(server) as js:
        await store.put(Bucket.HOSTS, "gpu1", b"here")
        found = await (await js.key_value("hotseat-hosts")).get("gpu1")

    assert found.value == b"here"


async def test_hosts_that_start_together_make_the_buckets_once(tmp_path: Path) -> None:
    """Eight hosts that start at the same moment all connect."""
    async with nats_servers(tmp_path) as (server,):
        stores = [JetStream(fleet_at(server)) for _ in range(8)]
        for store in stores:
            store.open()
        try:
            ready = await asyncio.gather(*(store.until_connected(PATIENCE_S) for store in stores))
        finally:
            await asyncio.gather(*(store.aclose() for store in stores))

    assert ready == [True] * 8


async def test_a_bucket_that_was_removed_is_made_again(tmp_path: Path) -> None:
    """After a bucket is deleted, the next write creates it again."""
    async with nats_servers(tmp_path) as (server,), connected(fleet_at(server)) as store, other_client(server) as js:
        await store.put(Bucket.HOSTS, "gpu1", b"before")
        await js.delete_stream(stream_of(Bucket.HOSTS))
        await store.put(Bucket.HOSTS, "gpu1", b"after")

        assert (found := await store.read(Bucket.HOSTS, "gpu1"))
        assert found.value == b"after"


async def test_a_foreign_bucket_is_logged(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """A bucket with an unexpected configuration is used, and a warning names it."""
    async with nats_servers(tmp_path) as (server,):
        async with other_client(server) as js:
            await js.add_stream(name=stream_of(Bucket.HOSTS), subjects=[subject_of(Bucket.HOSTS, ">")])
        async with connected(fleet_at(server)):
            pass

    assert "a bucket has an unexpected configuration stream=KV_hotseat-hosts" in caplog.text


async def storages(js: JetStreamContext) -> dict[Bucket, str]:
    infos = {bucket: await js.stream_info(stream_of(bucket)) for bucket in Bucket}
    return {bucket: StorageType(info.config.storage).value for bucket, info in infos.items()}


ON_DISK = dict.fromkeys(Bucket, "file")
USUAL = {Bucket.HOSTS: "memory", Bucket.CLAIMS: "memory", Bucket.CATALOGS: "file", Bucket.ORDERS: "file"}


async def test_leases_and_claims_are_in_memory_catalogs_and_orders_on_disk(tmp_path: Path) -> None:
    """What is outdated after ten seconds is not written to a disk."""
    async with nats_servers(tmp_path) as (server,), connected(fleet_at(server)), other_client(server) as js:
        assert await storages(js) == USUAL


async def test_a_server_that_restarts_keeps_orders_and_gets_the_buckets_again(tmp_path: Path) -> None:
    """After a kill of the only server, orders are there, leases are gone, and hosts can write them again."""
    async with nats_servers(tmp_path) as (server,), connected(fleet_at(server)) as store:
        await store.put(Bucket.ORDERS, "gpu1", b"drained")
        await store.put(Bucket.HOSTS, "gpu1", b"here")
        server.kill()
        await come_true(lambda: not store.is_connected)
        server.start()
        assert await store.until_connected(PATIENCE_S)
        order, lease = await store.read(Bucket.ORDERS, "gpu1"), await store.read(Bucket.HOSTS, "gpu1")
        await store.create(Bucket.HOSTS, "gpu1", b"again")

        assert order is not None
        assert (order.value, lease) == (b"drained", None)


async def test_buckets_on_disk_keep_their_storage_until_they_are_removed(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """A host uses leases on disk and says so; a removed bucket is made again in memory, while the host runs."""
    caplog.set_level(logging.INFO)
    async with nats_servers(tmp_path) as (server,), other_client(server) as js:
        for bucket in Bucket:
            await js.add_stream(
                _config(bucket, LIVES_S[bucket], "hotseat").evolve(storage=StorageType.FILE, num_replicas=1)
            )
        async with connected(fleet_at(server)) as store:
            await store.put(Bucket.HOSTS, "gpu1", b"before")
            before = await storages(js)
            await js.delete_stream(stream_of(Bucket.HOSTS))
            await store.put(Bucket.HOSTS, "gpu1", b"after")
            after = await storages(js)

    assert (before, after) == (ON_DISK, {**ON_DISK, Bucket.HOSTS: "memory"})
    said = "a bucket has another storage than usual stream=KV_hotseat-hosts storage=file usual=memory"
    assert said in caplog.messages
    assert "unexpected configuration" not in caplog.text


async def test_where_nats_grants_no_memory_all_buckets_are_on_disk(tmp_path: Path) -> None:
    """A host joins such a NATS too."""
    async with (
        nats_servers(tmp_path, storage=", max_memory_store: 0") as (server,),
        connected(fleet_at(server)) as store,
        other_client(server) as js,
    ):
        await store.put(Bucket.HOSTS, "gpu1", b"here")

        assert await storages(js) == ON_DISK


async def is_created(store: JetStream, claim: str) -> bool:
    """A conflict: by an earlier attempt whose answer was lost."""
    try:
        async with asyncio.timeout(1.0):
            await store.create(Bucket.CLAIMS, claim, b"1")
    except Conflict:
        return True
    except (StoreError, TimeoutError):
        return False
    return True


async def test_three_servers_keep_three_copies_and_one_may_die(tmp_path: Path) -> None:
    """After the leader of the claims is killed, claims can be created and earlier ones read."""
    async with nats_servers(tmp_path, 3) as servers, connected(fleet_at(*servers), lives_s=LONG_LEASES) as store:
        async with other_client(servers[0]) as js:
            info = await js.stream_info(stream_of(Bucket.CLAIMS))
        last = await store.create(Bucket.CLAIMS, "qwen", b"1")
        next(server for server in servers if server.name == info.cluster.leader).kill()  # type: ignore[union-attr]  # a cluster has one
        await come_true_async(lambda: is_created(store, "other"), PATIENCE_S)

        assert info.config.num_replicas == 3
        assert (found := await store.read(Bucket.CLAIMS, "qwen"))
        assert (found.value, found.revision) == (b"1", last)


async def test_a_cluster_lets_one_of_many_writers_win(tmp_path: Path) -> None:
    """Of concurrent writes to one key, one succeeds and the others get a Conflict."""
    options: dict[str, Any] = {"patience_s": PATIENCE_S, "lives_s": LONG_LEASES}
    async with nats_servers(tmp_path, 3) as servers, connected(fleet_at(*servers), **options) as store:
        last = await store.create(Bucket.CLAIMS, "qwen", b"0")
        outcomes = await asyncio.gather(
            *(store.replace(Bucket.CLAIMS, "qwen", b"", last) for _ in range(20)),
            *(store.create(Bucket.CLAIMS, "other", b"") for _ in range(20)),
            return_exceptions=True,
        )
        for _ in range(300):
            last = await store.put(Bucket.CLAIMS, "mine", b"")
            last = await store.replace(Bucket.CLAIMS, "mine", b"", last)

    assert Counter(type(outcome).__name__ for outcome in outcomes) == {"int": 2, "Conflict": 38}


# Nothing is left behind


async def consumers(js: JetStreamContext) -> int:
    return sum([(await js.stream_info(stream_of(bucket))).state.consumer_count for bucket in Bucket])


async def no_consumers(js: JetStreamContext) -> bool:
    return not await consumers(js)


@pytest.fixture
def time_to_delete_consumers(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without it a slow NATS would delete them ten seconds later."""
    monkeypatch.setattr(watch_session, "GOODBYE_S", PATIENCE_S)


@pytest.mark.usefixtures("time_to_delete_consumers")
async def test_an_ended_watch_leaves_no_consumer(tmp_path: Path) -> None:
    """Ending a watch deletes its consumer."""
    async with nats_servers(tmp_path) as (server,), connected(fleet_at(server)) as store, other_client(server) as js:
        async with Watching(store, Bucket.HOSTS) as watching:
            await watching.until(CaughtUp)
            during = await consumers(js)

        assert during == 1
        assert await consumers(js) == 0


@pytest.mark.usefixtures("time_to_delete_consumers")
async def test_a_watch_that_begins_anew_again_and_again_has_one_consumer(tmp_path: Path) -> None:
    """A watch whose consumer is deleted creates one new consumer each time."""
    stream = stream_of(Bucket.HOSTS)
    async with (
        nats_servers(tmp_path) as (server,),
        connected(fleet_at(server), heartbeat_s=1.0) as store,
        other_client(server) as js,
        Watching(store, Bucket.HOSTS) as watching,
    ):
        await watching.until(CaughtUp)
        for _ in range(3):
            (consumer,) = await js.consumers_info(stream)
            await js.delete_consumer(stream, consumer.name)
            await watching.until(BegunAnew)
            await watching.until(CaughtUp)

        assert await consumers(js) == 1


class NoticedPauses(Backoff):
    """Notes for each pause whether NATS was there when it began."""

    def __init__(self, store: Callable[[], JetStream], noticed: list[bool]) -> None:
        super().__init__(0.05, 0.2)
        self._store, self._noticed = store, noticed

    def next(self) -> float:
        self._noticed.append(self._store().is_connected)
        return super().next()


async def test_watches_restart_after_a_pause_that_begins_when_nats_is_back(tmp_path: Path) -> None:
    """None of eight interrupted watches pauses while NATS is away: else all would restart at once."""
    noticed: list[bool] = []
    async with nats_servers(tmp_path) as (server,), AsyncExitStack() as stack:
        store = JetStream(fleet_at(server), heartbeat_s=0.4, pauses=lambda: NoticedPauses(lambda: store, noticed))
        stack.push_async_callback(store.aclose)
        store.open()
        assert await store.until_connected(PATIENCE_S)
        watches = [await stack.enter_async_context(Watching(store, bucket)) for bucket in Bucket for _ in range(2)]
        for watch in watches:
            await watch.until(CaughtUp)
        server.kill()
        tasks = Tasks()
        begun_anew = [tasks.start(watch.until(BegunAnew), "wait") for watch in watches]
        await come_true(lambda: not store.is_connected)
        server.start()
        await asyncio.gather(*begun_anew)

    assert len(noticed) >= 8
    assert all(noticed)


# Servers that are not there


async def test_while_nats_is_away_nothing_is_kept_for_later(tmp_path: Path) -> None:
    """A write without a connection fails, and is not carried out after the reconnection."""
    async with nats_servers(tmp_path) as (server,), connected(fleet_at(server)) as store:
        server.kill()
        await come_true(lambda: not store.is_connected)
        for write in (store.put, store.create):
            with pytest.raises(StoreError):
                await write(Bucket.CLAIMS, "late", b"")
        server.start()
        assert await store.until_connected(PATIENCE_S)

        assert store.is_connected
        assert await store.read(Bucket.CLAIMS, "late") is None


async def test_a_connection_lost_a_moment_ago_is_not_reported(tmp_path: Path) -> None:
    """Whoever waits for a connection directly after a loss waits for the next connection."""
    async with nats_servers(tmp_path) as (server,), connected(fleet_at(server)) as store:
        await store._link._lost()

        assert not await store.until_connected(0.05)


async def test_nats_may_come_later_than_the_host(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """A store opens without NATS, logs that, and connects when NATS is reachable."""
    async with nats_servers(tmp_path) as (server,):
        server.kill()
        store = JetStream(fleet_at(server))
        store.open()
        try:
            await come_true(lambda: "NATS error" in caplog.text)
            was_connected = store.is_connected
            server.start()
            connected_later = await store.until_connected(PATIENCE_S)
        finally:
            await store.aclose()

    assert (was_connected, connected_later) == (False, True)


async def test_the_same_error_is_logged_once(caplog: pytest.LogCaptureFixture) -> None:
    """A repeated error is logged once, and again after a connection."""
    link = Link(Fleet((), HostName("test")))
    for _ in range(3):
        await link._log_problem(OSError("refused"))
    await link._found()
    await link._log_problem(OSError("refused"))

    assert caplog.messages == ["NATS error error='refused'"] * 2


async def test_a_server_without_jetstream_is_logged(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """If NATS has no JetStream, the store is not connected and a warning says so."""
    caplog.set_level(logging.WARNING)
    async with nats_servers(tmp_path, more="jetstream: disabled") as (server,):
        store = JetStream(fleet_at(server), patience_s=0.5)
        store.open()
        try:
            await come_true(lambda: "the fleet's buckets cannot be created" in caplog.text)

            assert not store.is_connected
        finally:
            await store.aclose()


# Logins

KNOWN = 'authorization { user: "h", password: "p4ss" }'


def fleet_of(user: str, server: NatsServer) -> Fleet:
    return replace(fleet_at(server), login=NatsLogin(user=user, password="p4ss"))


async def test_user_and_password(tmp_path: Path) -> None:
    """A store connects with user and password."""
    async with nats_servers(tmp_path, more=KNOWN) as (server,), connected(fleet_of("h", server)) as store:
        assert store.is_connected


async def test_a_file_of_credentials(tmp_path: Path) -> None:
    """A store connects with a credentials file as `nsc` writes it."""
    known = operator_mode()
    (tmp_path / "host.creds").write_text(known.credentials)
    async with nats_servers(tmp_path, more=known.config) as (server,):
        login = NatsLogin(credentials=str(tmp_path / "host.creds"))
        async with connected(replace(fleet_at(server), login=login)) as store:
            assert store.is_connected


async def test_a_wrong_password_is_logged(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """The log reports the failed login, without the password."""
    async with nats_servers(tmp_path, more=KNOWN) as (server,):
        store = JetStream(replace(fleet_at(server), login=NatsLogin(user="h", password="wrong-one")))
        store.open()
        try:
            await come_true(lambda: "uthorization" in caplog.text)
        finally:
            await store.aclose()

    assert "wrong-one" not in caplog.text


async def test_whoever_is_thrown_out_comes_back_when_he_may(tmp_path: Path) -> None:
    """A store reconnects by itself when a changed password is changed back."""
    async with nats_servers(tmp_path, more=KNOWN) as (server,), connected(fleet_of("h", server)) as store:
        server.reconfigure(KNOWN.replace("p4ss", "other"))
        await come_true(lambda: not store.is_connected)
        server.reconfigure(KNOWN)

        assert await store.until_connected(PATIENCE_S)


async def test_tls_with_an_authority_of_ones_own(tmp_path: Path) -> None:
    """A store connects over TLS with a private CA and a client certificate."""
    pem = tmp_path / "both.pem"
    pem.write_text(CERTIFICATE)
    tls = f'tls {{ cert_file: "{pem}", key_file: "{pem}", ca_file: "{pem}", verify: true }}'
    async with nats_servers(tmp_path, more=tls) as (server,):
        login = NatsLogin(ca=str(pem), cert=str(pem), key=str(pem))
        fleet = Fleet((f"tls://localhost:{server.port}",), HostName("test"), login=login)
        async with connected(fleet) as store:
            assert store.is_connected


# Cancellation


@pytest.mark.parametrize("verb", ["put", "create", "read"])
async def test_an_operation_that_is_cancelled_in_the_middle_ends(tmp_path: Path, verb: str) -> None:
    """A cancelled operation ends at every moment, although NATS' client can swallow a cancellation."""
    tasks = Tasks()
    async with nats_servers(tmp_path) as (server,), connected(fleet_at(server)) as store:
        works: dict[str, Callable[[str], Coroutine[Any, Any, object]]] = {
            "put": lambda key: store.put(Bucket.CLAIMS, key, b""),
            "create": lambda key: store.create(Bucket.CLAIMS, key, b""),
            "read": lambda key: store.read(Bucket.CLAIMS, key),
        }
        outcomes = [await stopped_after(n % 20, tasks.start(works[verb](f"key{n}"), "work")) for n in range(200)]

    assert [outcome for outcome in outcomes if not outcome] == []


async def stopped_after(steps: int, work: asyncio.Task[object]) -> bool:
    """Did the task end when it was cancelled, or before?"""
    for _ in range(steps):
        await asyncio.sleep(0)
    is_cancelling = work.cancel()
    await asyncio.wait([work], timeout=PATIENCE_S)
    return work.cancelled() or not is_cancelling


async def test_a_watch_that_is_cancelled_at_any_moment_ends(tmp_path: Path) -> None:
    """A cancelled watch ends at every moment, and its consumer is gone soon after."""
    tasks = Tasks()
    async with nats_servers(tmp_path) as (server,), connected(fleet_at(server)) as store, other_client(server) as js:

        async def watch() -> None:
            async for _ in store.watch(Bucket.HOSTS):
                pass

        outcomes = [await stopped_after(n, tasks.start(watch(), "watch")) for n in range(60)]
        await come_true_async(lambda: no_consumers(js), PATIENCE_S)

    assert all(outcomes)


def test_a_store_whose_connection_broke_is_closed_in_peace(tmp_path: Path) -> None:
    """On uvloop, closing a store whose connection is broken raises nothing."""

    async def break_and_close() -> None:
        async with nats_servers(tmp_path) as servers:
            store = JetStream(fleet_at(*servers))
            store.open()
            assert await store.until_connected(PATIENCE_S)
            async with Watching(store, Bucket.HOSTS) as watching:
                await watching.until(CaughtUp)
                servers[0].kill()
                await come_true(lambda: not store.is_connected)
            await store.aclose()

    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        runner.run(break_and_close())
