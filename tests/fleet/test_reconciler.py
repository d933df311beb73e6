"""What a host does for the fleet without a request."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, cast

import pytest
from tests.support.fleet import RosterRig, fleet_catalog, host, offer, there
from tests.support.in_process_store import Board, InProcess
from tests.support.waiting import come_true

from hotseat.errors import LoadFailed
from hotseat.fleet.reconciler import JOINED_S, SETTLES_S, Reconciler
from hotseat.fleet.records import Claim, encoded
from hotseat.fleet.replicas import too_many
from hotseat.fleet.roster import Roster
from hotseat.fleet.store import Bucket, Removed, Revision, Written
from hotseat.fleet.view import FleetConnection
from hotseat.identifiers import HostName, ModelName
from hotseat.tasks import Tasks

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from hotseat.fleet.host_selector import HostSelector
    from hotseat.fleet.placement import Load

ALPHA = ModelName("alpha")
ME = HostName("here")


class Loader:
    """A host that records what it should load and stop."""

    def __init__(self) -> None:
        self.loaded: list[str] = []
        self.stopped: list[str] = []
        self.problem: LoadFailed | None = None
        self.connection = FleetConnection.CONNECTED

    def look_at_ourselves(self) -> None: ...
    def notify(self) -> None: ...

    async def load(self, model: ModelName) -> None:
        self.loaded.append(model)
        if self.problem:
            raise self.problem

    async def unload(self, model: ModelName) -> None:
        self.stopped.append(model)


@pytest.fixture
async def loader() -> Loader:
    return Loader()


@pytest.fixture
async def reconciler(loader: Loader) -> AsyncIterator[Reconciler]:
    tasks = Tasks()
    nobody = cast("HostSelector", Unasked())
    yield Reconciler(Roster(ME), InProcess(Board()), nobody, loader, tasks, asyncio.get_running_loop().time)
    await tasks.aclose()


class Unasked:
    """A host selector that no request has asked for anything."""

    def __init__(self) -> None:
        self.decided: list[Load] = []

    def forget_absent(self) -> None: ...

    def asked_for(self) -> set[ModelName]:
        return set()

    async def decide(self, decision: Load, *, unasked: bool) -> None:
        self.decided.append(decision)


def claimed(revision: int, *, host: HostName = ME, unasked: bool = True) -> Written:
    claim = Claim(ALPHA, host, HostName("there"), "two replicas are always wanted", unasked=unasked)
    return Written("alpha.0", encoded(claim), Revision(revision))


async def test_a_host_loads_what_it_was_chosen_for(reconciler: Reconciler, loader: Loader) -> None:
    """A claim for this host loads the model."""
    reconciler.on_change(Bucket.CLAIMS, claimed(5))

    await come_true(lambda: loader.loaded == ["alpha"])


async def test_an_old_claim_that_comes_late_is_void(reconciler: Reconciler, loader: Loader) -> None:
    """A claim with an older or repeated revision is ignored; a newer one is acted on."""
    for revision in (5, 5, 3, 6):
        reconciler.on_change(Bucket.CLAIMS, claimed(revision))
    await come_true(lambda: len(loader.loaded) >= 2)

    assert loader.loaded == ["alpha", "alpha"]


@pytest.mark.parametrize(
    "change",
    [
        claimed(5, host=HostName("there")),
        claimed(5, unasked=False),
        Written("alpha.0", b"junk", Revision(5)),
        Removed("alpha.0", Revision(5)),
    ],
    ids=["of another host", "that a request brings", "junk", "taken back"],
)
async def test_other_news_load_nothing(reconciler: Reconciler, loader: Loader, change: Written | Removed) -> None:
    """A claim for another host, one made by a request, junk and a removal load nothing."""
    reconciler.on_change(Bucket.CLAIMS, change)
    reconciler.on_change(Bucket.CLAIMS, claimed(6))
    await come_true(lambda: loader.loaded)

    assert loader.loaded == ["alpha"]


async def test_a_load_for_the_fleet_that_fails_is_logged(
    reconciler: Reconciler, loader: Loader, caplog: pytest.LogCaptureFixture
) -> None:
    """A failed load is logged, and the next claim is acted on."""
    loader.problem = LoadFailed("it exited with code 1")
    reconciler.on_change(Bucket.CLAIMS, claimed(5))
    await come_true(lambda: "an order of the fleet failed model=alpha" in caplog.text)
    reconciler.on_change(Bucket.CLAIMS, claimed(6))

    await come_true(lambda: loader.loaded == ["alpha", "alpha"])


async def test_one_replica_too_many_goes_when_it_stays_too_many(loader: Loader) -> None:
    """A surplus replica is stopped only after it was surplus for a while, so that a move is not undone."""
    rig, other, tasks = *surplus(), Tasks()
    reconciler = reconciler_of(rig, loader, tasks)
    await reconciler.go()
    rig.after(SETTLES_S - 0.1).hosts(host(other, there("qwen")))
    await reconciler.go()
    assert loader.stopped == []
    rig.after(0.1)
    await reconciler.go()

    await come_true(lambda: loader.stopped == ["qwen"])
    await tasks.aclose()


async def test_one_replica_too_many_by_an_old_record(loader: Loader) -> None:
    """While no record of the other host arrives, it may have stopped its replica, and this one may be the only one."""
    rig, other, tasks = *surplus(), Tasks()
    reconciler = reconciler_of(rig, loader, tasks)
    for _ in range(3):
        await reconciler.go()
        rig.after(SETTLES_S)
    assert list(tasks) == []
    rig.hosts(host(other, there("qwen")))
    await reconciler.go()

    await come_true(lambda: loader.stopped == ["qwen"])
    await tasks.aclose()


def reconciler_of(rig: RosterRig, loader: Loader, tasks: Tasks) -> Reconciler:
    selector = cast("HostSelector", Unasked())
    return Reconciler(rig.roster, InProcess(Board()), selector, loader, tasks, lambda: rig.now)


def surplus() -> tuple[RosterRig, str]:
    """The host whose replica is surplus, and the other one."""
    [me] = [name for name in ("a", "b") if too_many((rig := twice(name)).roster, rig.now)]
    return twice(me), "b" if me == "a" else "a"


def twice(me: str) -> RosterRig:
    """A model on two hosts that one may have."""
    return RosterRig(me).hosts(host("a", there("qwen")), host("b", there("qwen")))


async def test_a_host_that_has_not_joined_yet(loader: Loader) -> None:
    """It chooses no host for a replica that is missing: its own name may stand for another machine."""
    rig, unasked = RosterRig(catalog=fleet_catalog(alpha=offer(least=1))).hosts(host("here")), Unasked()
    selector, store = cast("HostSelector", unasked), InProcess(Board())
    reconciler = Reconciler(rig.roster, store, selector, loader, Tasks(), lambda: rig.now)
    loader.connection = FleetConnection.DISCONNECTED
    await reconciler.go()
    assert unasked.decided == []

    loader.connection = FleetConnection.CONNECTED
    await reconciler.go()
    assert unasked.decided == []  # hosts that join or return at the same time may have it

    rig.now += JOINED_S
    await reconciler.go()
    assert [decision.model for decision in unasked.decided] == [ALPHA]
