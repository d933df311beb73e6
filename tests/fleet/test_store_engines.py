"""What both engines of the store guarantee: the in-process one and the one on a real NATS server."""

from __future__ import annotations

import asyncio
import math
from contextlib import suppress
from typing import TYPE_CHECKING

import pytest
from tests.support.fleets import SHORT_S, Watching, engine_called
from tests.support.waiting import PATIENCE_S, come_true_async

from hotseat.fleet.jetstream import watch_session
from hotseat.fleet.store import BegunAnew, Bucket, CaughtUp, Conflict, Removed, Revision, StoreError, Written

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from pathlib import Path

    from tests.support.fleets import Engine

    from hotseat.fleet.store import Store

LASTING, LEASES = Bucket.CATALOGS, Bucket.HOSTS
TRIES = 20
"""To renew a lease in time: on a busy machine one may be held up."""


@pytest.fixture(params=["in process", "NATS"])
async def engine(
    request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> AsyncIterator[Engine]:
    monkeypatch.setattr(watch_session, "GOODBYE_S", PATIENCE_S)
    async with engine_called(request.param, tmp_path) as engine:
        yield engine


@pytest.fixture
async def store(engine: Engine) -> Store:
    return await engine.store()


async def put_or_none(store: Store, key: str) -> Revision | None:
    with suppress(StoreError):
        return await store.put(LASTING, key, b"1")
    return None


# Writing


async def test_what_is_there_cannot_be_created(store: Store) -> None:
    """Creating an existing key is a Conflict and keeps the first value."""
    await store.create(LASTING, "qwen", b"mine")

    with pytest.raises(Conflict):
        await store.create(LASTING, "qwen", b"no, mine")
    assert (found := await store.read(LASTING, "qwen"))
    assert found.value == b"mine"


async def test_only_one_of_many_creators_wins(engine: Engine) -> None:
    """Of three concurrent creations of one key, one succeeds."""
    stores = [await engine.store() for _ in range(3)]
    outcomes = await asyncio.gather(
        *(store.create(LASTING, "qwen", str(n).encode()) for n, store in enumerate(stores)), return_exceptions=True
    )

    assert sorted(type(outcome).__name__ for outcome in outcomes) == ["Conflict", "Conflict", "int"]


async def test_replacing_needs_the_last_revision(store: Store) -> None:
    """A replacement with an outdated revision is a Conflict."""
    first = await store.create(LASTING, "qwen", b"1")
    second = await store.replace(LASTING, "qwen", b"2", first)

    assert second > first
    with pytest.raises(Conflict):
        await store.replace(LASTING, "qwen", b"3", first)
    assert await store.read(LASTING, "qwen") == Written("qwen", b"2", second)


async def test_a_removed_key_cannot_be_replaced(store: Store) -> None:
    """Replacing a removed key is a Conflict."""
    last = await store.create(LASTING, "qwen", b"1")
    await store.remove(LASTING, "qwen")

    with pytest.raises(Conflict):
        await store.replace(LASTING, "qwen", b"2", last)


async def test_putting_overwrites(store: Store) -> None:
    """A put needs no revision and replaces the value."""
    await store.put(LASTING, "qwen", b"1")
    last = await store.put(LASTING, "qwen", b"2")

    assert await store.read(LASTING, "qwen") == Written("qwen", b"2", last)


async def test_a_removed_key_can_be_created_again(store: Store) -> None:
    """A removed key reads as None and can be created again."""
    await store.create(LASTING, "qwen", b"1")
    await store.remove(LASTING, "qwen")
    gone = await store.read(LASTING, "qwen")
    await store.create(LASTING, "qwen", b"2")

    assert gone is None
    assert (found := await store.read(LASTING, "qwen"))
    assert found.value == b"2"


async def test_removing_what_somebody_wrote_since_is_refused(store: Store) -> None:
    """A removal with an outdated revision is a Conflict and keeps the value."""
    first = await store.create(LASTING, "qwen", b"1")
    await store.put(LASTING, "qwen", b"2")

    with pytest.raises(Conflict):
        await store.remove(LASTING, "qwen", first)
    assert (found := await store.read(LASTING, "qwen"))
    assert found.value == b"2"


async def test_what_was_never_there_reads_as_nothing(store: Store) -> None:
    """Reading an absent key returns None."""
    assert await store.read(Bucket.ORDERS, "nobody") is None


@pytest.mark.parametrize("key", ["gpu1", "gpu-1.lab_2.example", "UXdlbjMtMzBCLUEzQg==.0", "a"])
async def test_names_that_may_be_keys(store: Store, key: str) -> None:
    """Host names and URL-safe base64 are valid keys."""
    await store.put(LASTING, key, b"here")

    assert (found := await store.read(LASTING, key))
    assert (found.key, found.value) == (key, b"here")


@pytest.mark.parametrize("key", ["", ".", "a.", ".a", "a..b", "a b", "*", ">", "a/b", "ä", "a\n"])
async def test_names_that_may_not_be_keys(store: Store, key: str) -> None:
    """Both engines reject keys that NATS does not accept or takes for a pattern."""
    with pytest.raises(ValueError):
        await store.put(LASTING, key, b"here")
    with pytest.raises(ValueError):
        await store.read(LASTING, key)


async def test_half_a_megabyte_is_no_trouble(engine: Engine) -> None:
    """A value of half a megabyte is read and reported in one piece."""
    here, there = await engine.store(), await engine.store()
    value = bytes(range(256)) * 2000
    async with Watching(there, Bucket.CATALOGS) as watching:
        await watching.until(CaughtUp)
        revision = await here.put(Bucket.CATALOGS, "digest", value)

        assert await watching.next() == Written("digest", value, revision)
    assert await there.read(Bucket.CATALOGS, "digest") == Written("digest", value, revision)


# Leases


async def test_a_lease_ends_and_watchers_get_a_removal(engine: Engine) -> None:
    """When a lease expires, watchers get a removal, and the key reads as None."""
    here, there = await engine.store(), await engine.store()
    async with Watching(there, LEASES) as watching:
        await watching.until(CaughtUp)
        revision = await here.put(LEASES, "gpu1", b"alive")
        written, removed = await watching.next(), await watching.next()

    assert written == Written("gpu1", b"alive", revision)
    assert isinstance(removed, Removed)
    assert removed.key == "gpu1"
    assert removed.revision > revision
    assert await there.read(LEASES, "gpu1") is None


async def test_a_lapsed_lease_can_be_created_anew(engine: Engine) -> None:
    """An expired lease cannot be replaced but can be created again."""
    store = await engine.store()
    async with Watching(store, LEASES) as watching:
        await watching.until(CaughtUp)
        first = await store.create(LEASES, "gpu1", b"1")
        await watching.until(Removed)
    with pytest.raises(Conflict):
        await store.replace(LEASES, "gpu1", b"2", first)
    again = await store.create(LEASES, "gpu1", b"2")

    assert again > first


async def test_a_renewed_lease_stays(engine: Engine) -> None:
    """A lease that is renewed in time does not expire."""
    store = await engine.store()
    for key in (f"gpu{n}" for n in range(TRIES)):
        async with Watching(store, LEASES) as watching:
            await watching.until(CaughtUp)
            last, longest_gap_s = await renewed(store, key, 2 * SHORT_S)
            received = [change for change in await watching.until(Removed) if isinstance(change, Written)]
        if longest_gap_s < SHORT_S / 2:  # else it was not renewed in time: the machine was busy
            assert received[-1].revision == last
            return
    pytest.fail("the machine was too busy to renew a lease in time")


async def renewed(store: Store, key: str, seconds: float) -> tuple[Revision, float]:
    """Create a lease and renew it for some time: its last revision, and the longest time between two renewals."""
    now = asyncio.get_running_loop().time
    began = at = now()
    last, longest_gap_s = await store.create(LEASES, key, b"0"), 0.0
    while at < began + seconds:
        await asyncio.sleep(SHORT_S / 5)  # the store ends a lease by its own clock, so real time is needed
        try:
            last = await store.replace(LEASES, key, b"again", last)
        except Conflict:
            return last, math.inf
        longest_gap_s, at = max(longest_gap_s, now() - at), now()
    return last, longest_gap_s


# Watching


async def test_a_watch_tells_the_state_and_then_what_changes(engine: Engine) -> None:
    """A watch reports the existing keys, a CaughtUp mark, and then every change."""
    here, there = await engine.store(), await engine.store()
    for n in range(3):
        await here.put(LASTING, f"model{n}", b"old")
    await here.remove(LASTING, "model0")
    async with Watching(there, LASTING) as watching:
        state = await watching.until(CaughtUp)
        await here.put(LASTING, "model1", b"new")
        await here.remove(LASTING, "model2")
        changes = [await watching.next(), await watching.next()]

    assert sorted(change.key for change in state if isinstance(change, Written)) == ["model1", "model2"]
    assert len(state) == 3
    assert [(type(change), change.key) for change in changes if isinstance(change, Written | Removed)] == [
        (Written, "model1"),
        (Removed, "model2"),
    ]


async def test_an_empty_bucket_is_caught_up_with_at_once(store: Store) -> None:
    """In an empty bucket the first report is the CaughtUp mark."""
    async with Watching(store, Bucket.ORDERS) as watching:
        assert isinstance(await watching.next(), CaughtUp)


async def test_after_an_interruption_a_watch_begins_anew(engine: Engine) -> None:
    """After an interruption a watch reports the whole state again, including changes in between."""
    here, there = await engine.store(), await engine.store()
    await here.put(LASTING, "stays", b"1")
    async with Watching(there, LASTING) as watching:
        await watching.until(CaughtUp)
        await engine.interrupt()
        await come_true_async(lambda: put_or_none(here, "came"), PATIENCE_S)
        await watching.until(BegunAnew)
        state = await watching.until(CaughtUp)
        await come_true_async(lambda: put_or_none(here, "later"), PATIENCE_S)
        received = {change.key for change in [*state, *(await watching.until(Written))] if isinstance(change, Written)}

    assert {"stays", "came"} <= received


async def test_a_slow_watcher_gets_the_last_values(engine: Engine) -> None:
    """A slow watcher may miss intermediate values but gets the last value of each key."""
    here, there = await engine.store(), await engine.store()
    async with Watching(there, LASTING) as watching:
        await watching.until(CaughtUp)
        for n in range(300):
            await here.put(LASTING, f"model{n % 3}", str(n).encode() * 1000)
        last = await here.put(LASTING, "end", b"")
        received: dict[str, Written] = {}
        while "end" not in received:
            change = await watching.next()
            assert isinstance(change, Written)
            received[change.key] = change

    assert received["end"].revision == last
    assert {received[f"model{n}"].value for n in range(3)} == {str(n).encode() * 1000 for n in (297, 298, 299)}
