"""What a new process makes of the servers and of the settings that another one has left."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any
from unittest.mock import Mock, patch

import pytest
from tests.support.catalogs import GIB, gpu, model, one_at_a_time, with_budget
from tests.support.fake_launcher import FakeLauncher, spec

from hotseat.catalog.named_models import Profile
from hotseat.catalog.spec import Footprint, Overrides, Source
from hotseat.dispatch.dispatcher import Dispatcher
from hotseat.dispatch.journal import Journal
from hotseat.handover.channel import Message
from hotseat.identifiers import Address, ClientId, DeviceName, LaunchId, ModelName, TicketId
from hotseat.memory.manager import SECTION, MemoryManager
from hotseat.memory.measurement import Use
from hotseat.memory.model_figures import Footprints, key_of
from hotseat.model_servers.adoption import ServerDescription, fingerprint_of
from hotseat.scheduling.events import OverridesChanged
from hotseat.scheduling.handover import Handover, LevelRecord, ProcessSpec, WaitingTicket, to_json
from hotseat.scheduling.scheduler import Scheduler
from hotseat.settings import Settings
from hotseat.startup.models import grace_socket
from hotseat.startup.restarting import OldState, adopt, handover_of, recall_memory, record_of, restore_catalog
from hotseat.state.learned_store import LearnedStore
from hotseat.state.overrides_store import to_json as to_json_of

if TYPE_CHECKING:
    from pathlib import Path

    from hotseat.catalog.catalog import Catalog

pytestmark = pytest.mark.anyio

QWEN = spec("qwen")
CATALOG = one_at_a_time(QWEN, "llama")


def described(**known: Any) -> ServerDescription:
    """A server of qwen that became ready at 1000."""
    usual: dict[str, Any] = {
        "model": QWEN.name,
        "launch": LaunchId(7),
        "pid": 4711,
        "address": Address("127.0.0.1", 9000),
        "port": 9000,
        "check_endpoint": "/health",
        "fingerprint": fingerprint_of(QWEN),
        "gpus": (),
        "ready_at": 1000.0,
    }
    return ServerDescription(**{**usual, **known})


# After a crash


@pytest.mark.parametrize("other", [("127.0.0.2", 8080), ("::1", 8080), ("127.0.0.1", 8081)])
def test_two_hotseats_at_different_addresses_wait_for_their_own_successors(other: tuple[str, int]) -> None:
    """One that starts at one address must not be given the servers of another that was killed at the same port."""
    ours, theirs = (grace_socket(Settings(listen=listen)) for listen in (("127.0.0.1", 8080), other))

    assert ours != theirs
    assert ours.parent == theirs.parent


def test_a_server_that_the_configuration_still_has() -> None:
    """What the guard knows of it is enough: it is ready since then, with its GPUs and slots, and has answered."""
    record = record_of(described(gpus=(gpu(1),), slots=4), CATALOG, now=1060.0)

    assert record is not None
    assert (record.model, record.launch, record.spec) == (QWEN.name, 7, ProcessSpec.of(QWEN))
    assert (record.ready_s, record.phase_s, record.level) == (60.0, 60.0, None)
    assert (record.gpus, record.slots_reported, record.has_answered) == ((gpu(1),), 4, True)


def test_a_server_whose_model_prefers_another_port_by_now() -> None:
    """It is adopted: with `startPort` every model that is added before it changes that."""
    moved = replace(QWEN, recipe=replace(QWEN.recipe, preferred_port=5801))

    assert record_of(described(), one_at_a_time(moved), now=1060.0) is not None


def test_a_server_that_sleeps() -> None:
    """It is adopted asleep."""
    record = record_of(described(sleep="1"), CATALOG, now=1060.0)

    assert record is not None
    assert record.level == LevelRecord("1")


def test_a_clock_that_was_set_back() -> None:
    """Nothing was ready in the future."""
    record = record_of(described(), CATALOG, now=10.0)

    assert record is not None
    assert record.ready_s == 0.0


@pytest.mark.parametrize("known", [{"model": ModelName("gone")}, {"fingerprint": "of another command"}])
def test_a_server_whose_model_was_removed_or_changed(known: dict[str, Any]) -> None:
    """It is not adopted."""
    assert record_of(described(**known), CATALOG, now=1060.0) is None


def test_launches_are_numbered_on_from_the_adopted_servers() -> None:
    """No number means two servers; those that are not adopted do not count, since nobody hears of them again."""
    found = [described(), described(launch=LaunchId(9)), described(launch=LaunchId(12), fingerprint="another")]
    handover = handover_of(found, CATALOG, now=1060.0)

    assert handover.last_launch == 9
    assert [server.launch for server in handover.servers] == [7, 9]
    assert handover_of([], CATALOG, now=1060.0) == Handover()


# After a restart


def dispatcher_of(*names: str, **known: Any) -> Dispatcher:
    catalog = replace(one_at_a_time(*names), profiles={"night": Profile("night", "", {"gpt": "qwen"})})
    return Dispatcher(Scheduler(replace(catalog, **known)), FakeLauncher(), Journal())


PINNED = {ModelName("qwen"): Overrides(pinned=True)}


async def test_what_operators_have_set_meanwhile() -> None:
    """The new process had read its configuration before, and what operators had set then."""
    dispatcher = dispatcher_of("qwen", "llama")
    dispatcher.tell(OverridesChanged(ModelName("llama"), pinned=True))
    restore_catalog(dispatcher, PINNED, "night")

    assert dispatcher.catalog.active_profile == "night"
    assert dispatcher.catalog.overrides == {"qwen": Overrides(pinned=True)}
    assert dispatcher.catalog.models[ModelName("qwen")].pinned


async def test_a_profile_that_is_not_configured_any_more() -> None:
    """None is active then."""
    dispatcher = dispatcher_of("qwen", profiles={})
    restore_catalog(dispatcher, PINNED, "night")

    assert dispatcher.catalog.active_profile is None


async def test_nothing_was_set() -> None:
    """The catalog stays the same, and the journal has no entry about it."""
    dispatcher = dispatcher_of("qwen")
    before = dispatcher.catalog
    restore_catalog(dispatcher, {}, None)

    assert dispatcher.catalog is before


async def test_what_the_old_process_has_measured_meanwhile(tmp_path: Path) -> None:
    """The new process had read it before; it counts for the next load, and is not overwritten."""
    spec = model("qwen", estimated={gpu(0): GIB})
    journal = Journal()
    dispatcher = Dispatcher(Scheduler(with_budget(spec)), FakeLauncher(), journal)
    learned = LearnedStore(tmp_path / "learned.json")
    parts: Any = SimpleNamespace(dispatcher=dispatcher, memory=MemoryManager(learned, dict, Mock()))
    recall_memory(parts)
    before = journal.n
    Footprints(learned.section(SECTION)).note(key_of(spec.recipe), LaunchId(7), {DeviceName("gpu0"): Use(6 * GIB)})
    recall_memory(parts)
    recall_memory(parts)

    assert dispatcher.views.of(ModelName("qwen")).footprint == Footprint({gpu(0): 6 * GIB}, Source.MEASURED)
    assert journal.n == before + 1


def state(**facts: Any) -> Message:
    """What the first version with this message sent, and more."""
    usual = {"scheduler": to_json(Handover(3)).decode(), "journal": 8, "next_ticket": 5, "profile": None}
    return Message("state", {**usual, **facts}, (10, 11))


def test_the_last_message_of_an_older_version() -> None:
    """What it does not say has a default."""
    assert OldState.of(state()) == (Handover(3), 8, TicketId(5), None, False, {}, None, {}, [], None, -1)


def test_the_last_message_of_this_version() -> None:
    """The second descriptor is the lock of the folder of conversations."""
    conversations = {"folder": "/cache/0123456789abcdef", "files": [], "servers": []}
    fleet = {"token": "0" * 64, "host": "hotseat/gpu1", "orders": []}
    handed = {"conversations": conversations, "must_reload": True, "fleet": fleet, "proofs": ["1 a-1"]}
    read = OldState.of(state(overrides=to_json_of(PINNED), preload=["llama"], weather="fine", **handed))

    assert (read.must_reload, read.fleet, read.overrides, read.lock) == (True, fleet, PINNED, 11)
    assert (read.proofs, read.preload) == (["1 a-1"], ["llama"])
    assert read.conversations is not None
    assert read.conversations.folder == "/cache/0123456789abcdef"


class OrderedSupervisor:
    """Says when it was told to end what nobody adopts, and how long each server may take to stop."""

    def __init__(self, calls: list[str]) -> None:
        self._calls = calls

    def limit_stops(self, _: Catalog) -> None:
        self._calls.append("limit_stops")

    def end_unadopted(self) -> None:
        self._calls.append("end_unadopted")


async def test_what_nobody_adopts_is_being_ended_before_the_first_server_is_started() -> None:
    """A start waits for the end of all that are ending, so these must be known by then."""
    dispatcher, calls = dispatcher_of("qwen"), list[str]()
    parts: Any = SimpleNamespace(supervisor=OrderedSupervisor(calls), dispatcher=dispatcher)
    with patch.object(dispatcher, "tell", lambda event: calls.append(type(event).__name__)):
        adopt(parts, Handover(waiting=(WaitingTicket(TicketId(1), ModelName("qwen"), ClientId("ann")),)), ())

    assert calls == ["limit_stops", "end_unadopted", "HandoverReceived", "RequestArrived", "HandoverCompleted"]
