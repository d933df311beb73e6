"""A host's membership in the fleet, with an in-process store and a virtual clock."""

from __future__ import annotations

import asyncio
import logging
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import msgspec
import pytest
from tests.support.counting_store import CountingStore
from tests.support.in_process_store import Board, InProcess
from tests.support.virtual_time import advance, in_virtual_time

from hotseat.fleet.membership import BETWEEN_S, CATCH_UP_S, LATE_S, RENEW_S, CatalogLease, Membership
from hotseat.fleet.records import CatalogRecord, HostRecord, Offer, Residence, decoded, encoded
from hotseat.fleet.store import LEASE_S, BegunAnew, Bucket, CaughtUp, NameTaken, Removed, Revision, Written
from hotseat.fleet.view import FleetConnection
from hotseat.identifiers import HostName, ModelName
from hotseat.tasks import Tasks

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from hotseat.fleet.store import Change

QWEN = ModelName("qwen")


@dataclass
class Host:
    """One member: its record, the changes it received, and its connection."""

    store: InProcess
    record: HostRecord
    offers: CatalogRecord = field(default_factory=lambda: CatalogRecord({QWEN: Offer()}))
    changes: list[tuple[Bucket, Change]] = field(default_factory=list)
    stood: list[FleetConnection] = field(default_factory=list)
    membership: Membership = field(init=False)

    def __post_init__(self) -> None:
        self.membership = Membership(
            self.store,
            lambda: self.record,
            lambda: self.offers,
            lambda bucket, change: self.changes.append((bucket, change)),
            self.stood.append,
        )

    def becomes(self, **known: Any) -> None:
        self.record = msgspec.structs.replace(self.record, **known)
        self.membership.notify()

    def changes_of(self, name: str) -> list[Change]:
        return [change for _, change in self.changes if isinstance(change, Written | Removed) and change.key == name]


def new_board() -> Board:
    return Board(clock=asyncio.get_running_loop().time)


def host(
    board: Board,
    name: str = "gpu1",
    boot: str = "first",
    address: str = "",
    token_hash: str = "this machine",
    store: InProcess | None = None,
) -> Host:
    record = HostRecord(HostName(name), address or f"http://{name}:8080", boot, "digest", token_hash=token_hash)
    return Host(store or InProcess(board), record)


@asynccontextmanager
async def joined(board: Board, name: str = "gpu1", **known: Any) -> AsyncIterator[Host]:
    member = host(board, name, **known)
    await member.membership.join()
    try:
        yield member
    finally:
        await member.membership.leave()


async def seen(board: Board, name: str = "gpu1") -> HostRecord | None:
    found = await InProcess(board).read(Bucket.HOSTS, name)
    return decoded(found.value, HostRecord) if found else None


def phase(name: str) -> list[Residence]:
    return [Residence(QWEN, name)]


# Being there


@in_virtual_time
async def test_a_host_is_there_as_long_as_it_lives() -> None:
    """A host's record stays for many lease times and is removed when the host leaves."""
    board = new_board()
    async with joined(board):
        await advance(10 * LEASE_S)
        during = await seen(board)

    assert during is not None
    assert await seen(board) is None


@in_virtual_time
async def test_a_host_whose_next_process_takes_over() -> None:
    """The others see it all the time: its record is replaced, and the old process does not remove the new one."""
    board = new_board()
    async with joined(board, "gpu1") as witness, joined(board, "gpu2") as old:
        await advance(1)
        await old.membership.fall_silent()
        between = await seen(board, "gpu2")
        async with joined(board, "gpu2", boot="second"):
            await old.membership.leave()
            await advance(LEASE_S)
            after = await seen(board, "gpu2")
            changes = witness.changes_of("gpu2")

    assert [record and record.boot for record in (between, after)] == ["first", "second"]
    assert {type(change) for change in changes} == {Written}


@in_virtual_time
async def test_a_host_that_dies_is_forgotten_when_its_lease_ends() -> None:
    """The record of a host that crashed is removed when its lease ends, and the others are notified."""
    board = new_board()
    async with joined(board, "gpu1") as witness:
        victim = host(board, "gpu2")
        await victim.membership.join()
        await advance(1)
        await victim.membership.fall_silent()
        await advance(LEASE_S - RENEW_S)
        before = await seen(board, "gpu2")
        await advance(RENEW_S + 0.1)

    assert before is not None
    assert isinstance(witness.changes_of("gpu2")[-1], Removed)


@in_virtual_time
async def test_a_member_receives_every_bucket() -> None:
    """A member gets the state and the changes of every bucket."""
    board = new_board()
    await InProcess(board).put(Bucket.ORDERS, "gpu1", b"{}")
    async with joined(board) as member:
        await advance(0.1)
        await InProcess(board).put(Bucket.CLAIMS, "qwen", b"{}")
        await advance(0.1)

    assert {bucket for bucket, change in member.changes if isinstance(change, CaughtUp)} == set(Bucket)
    assert {bucket for bucket, change in member.changes if isinstance(change, Written)} == set(Bucket)


# Telling


@in_virtual_time
async def test_many_changes_that_arrive_together() -> None:
    """Others get their turn after each: to take in a large catalog takes a while."""
    board, turns, taken_in = new_board(), 0, list[int]()

    async def others() -> None:
        nonlocal turns
        while True:
            turns += 1
            await asyncio.sleep(0)

    for number in range(50):
        await InProcess(board).put(Bucket.CATALOGS, f"digest-{number}", b"{}")
    member = host(board)
    member.membership._on_change = lambda bucket, _: taken_in.append(turns) if bucket is Bucket.CATALOGS else None
    waiting = Tasks()
    waiting.start(others(), "wait")
    await member.membership.join()
    while len(taken_in) < 50 and turns < 10_000:
        await asyncio.sleep(0)
    await waiting.aclose()
    await member.membership.leave()

    assert len(set(taken_in[:50])) == 50


@in_virtual_time
async def test_a_change_of_phase_is_published_at_once() -> None:
    """A changed phase is published within 10 ms, before the next renewal."""
    board = new_board()
    async with joined(board) as member:
        await advance(1)
        member.becomes(residents=phase("ready"))
        await advance(0.01)
        note_load = await seen(board)

    assert note_load is not None
    assert note_load.residents == phase("ready")


@in_virtual_time
async def test_many_changes_are_few_records_and_the_last_is_published() -> None:
    """A hundred changes in a second cause at most eight records, and the last change is published."""
    board = new_board()
    async with joined(board) as member:
        for n in range(100):
            member.becomes(residents=phase(f"phase-{n}"))
            await advance(0.01)
        await advance(BETWEEN_S)
        note_load = await seen(board)

    assert note_load is not None
    assert note_load.residents == phase("phase-99")
    assert 4 <= len(member.changes_of("gpu1")) <= 8


@in_virtual_time
async def test_load_alone_is_published_with_the_next_renewal() -> None:
    """A changed number of requests is published only with the next renewal."""
    board = new_board()
    async with joined(board) as member:
        for n in range(500):
            member.becomes(residents=[Residence(QWEN, "ready", in_flight=n)])
            await advance(0.01)
        note_load = await seen(board)

    assert note_load is not None
    assert len(member.changes_of("gpu1")) <= 4
    assert note_load.residents[0].in_flight > 200


# The name


@in_virtual_time
async def test_a_name_that_a_living_host_has_is_refused() -> None:
    """A second host with the same name gets an error with the first one's address, within two renewals."""
    board = new_board()
    async with joined(board, address="http://elsewhere:8080"):
        namesake = host(board, boot="second")
        began = asyncio.get_running_loop().time()
        with pytest.raises(NameTaken) as refused:
            await namesake.membership.join()
        took_s = asyncio.get_running_loop().time() - began
        holder = await seen(board)

    assert "http://elsewhere:8080" in str(refused.value)
    assert "fleet.name" in str(refused.value)
    assert took_s < 2 * RENEW_S
    assert holder is not None
    assert holder.boot == "first"


@in_virtual_time
async def test_a_name_of_the_dead_is_taken_when_its_lease_ends() -> None:
    """A host at another address joins under a dead host's name when that lease ends."""
    board = new_board()
    dead = HostRecord(HostName("gpu1"), "http://elsewhere:8080", "first", "digest")
    await InProcess(board).put(Bucket.HOSTS, "gpu1", encoded(dead))
    async with joined(board, boot="second"):
        note_load, now = await seen(board), asyncio.get_running_loop().time()

    assert note_load is not None
    assert note_load.boot == "second"
    assert LEASE_S <= now <= LEASE_S + 1.1


@in_virtual_time
async def test_a_host_that_was_killed_takes_its_own_name_at_once() -> None:
    """A host on the same machine joins at once, because only one process can listen there."""
    board = new_board()
    dead = host(board).record
    await InProcess(board).put(Bucket.HOSTS, "gpu1", encoded(dead))
    async with joined(board, boot="second"):
        note_load, now = await seen(board), asyncio.get_running_loop().time()

    assert note_load is not None
    assert (note_load.boot, now) == ("second", 0.0)


@in_virtual_time
async def test_a_copied_configuration_does_not_take_over_a_living_host() -> None:
    """A machine with a copied name and address is refused with a sentence, and the host stays connected."""
    board = new_board()
    async with joined(board) as member:
        copy = host(board, boot="second", token_hash="another machine")
        with pytest.raises(NameTaken) as refused:
            await copy.membership.join()
        await advance(3 * LEASE_S)
        holder = await seen(board)

    assert str(refused.value) == (
        'another host of the fleet is already named "gpu1" and has the same address (http://gpu1:8080). '
        "If this host's configuration was copied from it, choose another fleet.name and fleet.address."
    )
    assert holder is not None
    assert (holder.boot, member.stood) == ("first", [FleetConnection.CONNECTED])


@in_virtual_time
async def test_a_host_that_lost_its_state_directory_waits_for_its_own_lease() -> None:
    """A killed host with a new token joins when the lease of its previous run ends."""
    board = new_board()
    await InProcess(board).put(Bucket.HOSTS, "gpu1", encoded(host(board).record))
    async with joined(board, boot="second", token_hash="a new token"):
        note_load, now = await seen(board), asyncio.get_running_loop().time()

    assert note_load is not None
    assert note_load.boot == "second"
    assert LEASE_S <= now <= LEASE_S + 1.1


@in_virtual_time
async def test_a_second_host_with_the_same_state_directory_does_not_take_the_name() -> None:
    """Two hosts on one machine with one state directory and one name have different addresses: one is refused."""
    board = new_board()
    async with joined(board):
        with pytest.raises(NameTaken, match=r"Choose another fleet\.name"):
            await host(board, boot="second", address="http://gpu1:9090").membership.join()


@in_virtual_time
async def test_of_two_hosts_with_one_name_address_and_token_the_later_has_it() -> None:
    """A copied state directory is not noticed: the later host is connected and the earlier one is not."""
    board = new_board()
    async with joined(board) as earlier, joined(board, boot="second") as later:
        await advance(10 * LEASE_S)
        holder = await seen(board)

    assert holder is not None
    assert holder.boot == "second"
    assert earlier.stood == [FleetConnection.CONNECTED, FleetConnection.DISCONNECTED]
    assert later.stood == [FleetConnection.CONNECTED]


@in_virtual_time
async def test_a_write_whose_outcome_is_unknown_does_not_disconnect_us() -> None:
    """A host that finds its own record at an unexpected revision stays connected."""
    board = new_board()
    async with joined(board) as member:
        await InProcess(board).put(Bucket.HOSTS, "gpu1", encoded(member.record))
        await advance(2 * LEASE_S)
        held = await seen(board)
        await InProcess(board).put(Bucket.HOSTS, "gpu1", encoded(member.record))

    assert held is not None
    assert member.stood == [FleetConnection.CONNECTED]
    assert await seen(board) is None


@in_virtual_time
async def test_a_name_that_holds_something_else_is_not_overwritten() -> None:
    """A record that cannot be decoded is left alone until it expires."""
    board = new_board()
    await InProcess(board).put(Bucket.HOSTS, "gpu1", b"no record")
    async with joined(board):
        now = asyncio.get_running_loop().time()

    assert now >= LEASE_S


@in_virtual_time
async def test_whoever_lost_its_name_while_it_was_apart_does_not_fight_for_it() -> None:
    """A host whose name was taken while it was cut off stays disconnected until the other host leaves."""
    board = new_board()
    async with joined(board) as member:
        member.store.cut_off()
        await advance(2 * LEASE_S)
        async with joined(board, boot="other", address="http://elsewhere:8080"):
            member.store.let_in()
            await advance(3 * LEASE_S)
            holder = await seen(board)
        stood = list(member.stood)
        await advance(2 * LEASE_S)
        successor = await seen(board)

    assert holder is not None
    assert (holder.boot, stood) == ("other", [FleetConnection.CONNECTED, FleetConnection.DISCONNECTED])
    assert successor is not None
    assert successor.boot == "first"


@pytest.mark.uncounted
@in_virtual_time
async def test_whose_name_was_taken_while_the_store_was_empty_says_so(caplog: pytest.LogCaptureFixture) -> None:
    """The real host logs once that another one has its name, and gives the reason, until that one is gone."""
    board = new_board()
    async with joined(board) as member:
        member.store.cut_off()
        await advance(2 * LEASE_S)
        problem_before = member.membership.problem
        async with joined(board, boot="copy", token_hash="another machine") as copy:
            member.store.let_in()
            await advance(5 * LEASE_S)
            problem, connection = member.membership.problem, copy.membership.connection
        await advance(2 * LEASE_S)
        after = member.membership.problem

    warnings = [entry.getMessage() for entry in caplog.records if entry.levelno == logging.WARNING]
    assert (problem_before, connection, after) == ("cut off from the board", FleetConnection.CONNECTED, "")
    assert problem.startswith('another host of the fleet is already named "gpu1" and has the same address')
    assert warnings == [
        "disconnected from the fleet error='cut off from the board'",
        f"another host has the name of this one, which serves alone error={problem!r}",
    ]
    assert member.stood[-1] is FleetConnection.CONNECTED


# Being apart


@in_virtual_time
async def test_a_host_that_is_cut_off_knows_it_and_comes_back() -> None:
    """A cut-off host is disconnected and forgotten; when the store is back, it rejoins and watches anew."""
    board = new_board()
    async with joined(board) as member:
        await advance(1)
        member.store.cut_off()
        await advance(3 * LEASE_S)
        apart, forgotten = member.membership.connection, await seen(board)
        member.store.let_in()
        await advance(2)
        back = await seen(board)

    assert (apart, forgotten) == (FleetConnection.DISCONNECTED, None)
    assert back is not None
    assert member.stood == [FleetConnection.CONNECTED, FleetConnection.DISCONNECTED, FleetConnection.CONNECTED]
    assert {bucket for bucket, change in member.changes if isinstance(change, BegunAnew)} == set(Bucket)


@pytest.mark.uncounted
@in_virtual_time
async def test_being_apart_is_one_line(caplog: pytest.LogCaptureFixture) -> None:
    """Eight hours without the store are one line when it is lost and one when it is back."""
    caplog.set_level(logging.INFO)
    board = new_board()
    async with joined(board) as member:
        member.store.cut_off()
        await advance(8 * 3600)
        member.store.let_in()
        await advance(2)

    assert caplog.messages == [
        "connected to the fleet host=gpu1",
        "disconnected from the fleet error='cut off from the board'",
        "connected to the fleet host=gpu1",
    ]


@in_virtual_time
async def test_a_host_starts_without_its_store() -> None:
    """A host starts disconnected without its store and joins later."""
    board = new_board()
    member = host(board)
    member.store.cut_off()
    await member.membership.join()
    stood = list(member.stood)
    member.store.let_in()
    await advance(2)
    note_load = await seen(board)
    await member.membership.leave()

    assert stood == [FleetConnection.DISCONNECTED]
    assert note_load is not None


@in_virtual_time
async def test_leaving_while_apart_is_no_trouble() -> None:
    """A disconnected host can leave, and its record expires."""
    board = new_board()
    async with joined(board) as member:
        member.store.cut_off()
    await advance(LEASE_S)

    assert await seen(board) is None


# The catalog


@in_virtual_time
async def test_the_catalog_is_there_before_the_record_that_names_it() -> None:
    """After a reload, the catalog that the record names is in the store."""
    board = new_board()
    async with joined(board) as member:
        member.offers = CatalogRecord({QWEN: Offer(most=2)})
        member.becomes(catalog="another")
        await advance(1)
        found = await InProcess(board).read(Bucket.CATALOGS, "another")

    assert found is not None
    assert decoded(found.value, CatalogRecord) == member.offers


@in_virtual_time
async def test_hosts_with_the_same_catalog_write_it_once() -> None:
    """Of ten hosts that start together with one catalog, one writes it."""
    board = new_board()
    members = [host(board, f"gpu{n}") for n in range(10)]
    await asyncio.gather(*(member.membership.join() for member in members))
    await advance(1)
    written = [change for bucket, change in members[0].changes if bucket is Bucket.CATALOGS]
    await asyncio.gather(*(member.membership.leave() for member in members))

    assert [type(change) for change in written].count(Written) == 1


@in_virtual_time
async def test_a_host_whose_catalog_is_stored_uploads_nothing() -> None:
    """At the start, and after a reload to a configuration that another host has, it looks instead of writing."""
    board = new_board()
    async with joined(board, "gpu1") as first:
        await advance(1)
        first.becomes(catalog="another")
        await advance(1)
        store = CountingStore(board)
        second = host(board, "gpu2", store=store)
        await second.membership.join()
        await advance(1)
        second.becomes(catalog="another")
        await advance(1)
        published = await seen(board, "gpu2")
        await second.membership.leave()

    assert published is not None
    assert published.catalog == "another"
    assert store.count(Bucket.CATALOGS) == {}


@in_virtual_time
async def test_a_renewal_is_one_upload() -> None:
    """A host that is alone with its catalog writes it once per renewal."""
    board = new_board()
    store = CountingStore(board)
    member = host(board, store=store)
    await member.membership.join()
    await advance(LATE_S + RENEW_S)
    await member.membership.leave()

    assert store.count(Bucket.CATALOGS) in ({"create": 1, "put": 1}, {"create": 1, "put": 2})


@in_virtual_time
async def test_a_watch_that_never_catches_up_delays_a_host_for_a_moment() -> None:
    """Then the host writes its catalog without knowledge of the others'."""
    board = new_board()
    store = CountingStore(board)
    lease = CatalogLease(store, lambda: CatalogRecord({}))
    await lease.keep("digest")

    assert asyncio.get_running_loop().time() == CATCH_UP_S
    assert store.count(Bucket.CATALOGS) == {"create": 1}


@in_virtual_time
async def test_a_late_report_of_a_removed_catalog_is_not_believed() -> None:
    """A repeated change from before the removal does not hide that the catalog is gone."""
    board = new_board()
    store = CountingStore(board)
    lease = CatalogLease(store, lambda: CatalogRecord({}))
    before = Written("digest", b"", Revision(1))
    for change in (before, CaughtUp(), Removed("digest", Revision(2)), before):
        lease.notice(change)
    await lease.keep("digest")

    assert store.count(Bucket.CATALOGS) == {"create": 1}


@in_virtual_time
async def test_one_of_many_hosts_renews_the_catalog() -> None:
    """For a week a catalog never expires, and ten hosts renew it at most three times as often as one must."""
    board, tasks = new_board(), Tasks()
    changes: list[Change] = []
    leases = [CatalogLease(InProcess(board), lambda: CatalogRecord({})) for _ in range(10)]

    async def collect(lease: CatalogLease) -> None:
        async for change in InProcess(board).watch(Bucket.CATALOGS):
            lease.notice(change)
            changes.append(change)

    for lease in leases:
        tasks.start(collect(lease), "collect")
    for _ in range(7 * 86_400 // 600):
        for lease in leases:
            await lease.keep("digest")
        await advance(600)
    await tasks.aclose()

    renewals = len([change for change in changes if isinstance(change, Written)]) / len(leases)
    assert not [change for change in changes if isinstance(change, Removed)]
    assert 7 * 86_400 / LATE_S <= renewals <= 3 * 7 * 86_400 / LATE_S


@in_virtual_time
async def test_a_catalog_that_was_lost_is_written_again() -> None:
    """A host writes its catalog again after it was removed from the store."""
    board = new_board()
    async with joined(board):
        await InProcess(board).remove(Bucket.CATALOGS, "digest")
        await advance(2 * RENEW_S)

        assert await InProcess(board).read(Bucket.CATALOGS, "digest") is not None
