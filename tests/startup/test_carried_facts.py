"""Every fact that reaches the next process is in the table of docs/design/restarts.md, and can be ended there.

A new field of what is handed over needs a row in the table, or a place in one, and a test that ends it.
"""

from __future__ import annotations

import re
import sys
from dataclasses import fields, is_dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, TypeAlias

import pytest
from tests.startup.test_created_keys import ANN, BOB, World
from tests.support.catalogs import GIB, gpu, level, model, one_at_a_time, sleeps, with_budget
from tests.support.scheduler_driver import (
    SchedulerDriver,
    arrives,
    asleep,
    awake,
    cannot_sleep,
    clock,
    confirms,
    exited,
    failed,
    grants,
    handover_requested,
    keep_alive,
    leaves,
    left_by_others,
    load,
    measured,
    nothing,
    puts_to_sleep,
    ready,
    refuses,
    restored,
    restores,
    saved,
    saves,
    starts,
    stops,
    unload,
    wakes,
    wakes_at,
)

from hotseat import identifiers
from hotseat.activity.recent import Finished, Tokens
from hotseat.activity.store import ActivityStore
from hotseat.activity.usage import Account, Accounts
from hotseat.activity.usage_store import DAY_S, UsageCounter, UsageStore
from hotseat.catalog.named_models import Profile
from hotseat.catalog.spec import Overrides
from hotseat.errors import HostUnproven, NeverFits, NoMemory, OverBudget, Yielding
from hotseat.fleet.proofs import MOST_SKEW_S, FleetSecret, ProofChecker, Signer
from hotseat.handover.channel import EVENTS
from hotseat.handover.successor import Listening
from hotseat.identifiers import ClientId, HostName, ModelName
from hotseat.model_servers.adoption import ServerDescription
from hotseat.model_servers.conversations.handover import HandedConversations
from hotseat.scheduling.commands import Cause
from hotseat.scheduling.conversation_state import NOT_REUSED, TRIES
from hotseat.scheduling.events import OverridesChanged, ProfileChanged, SlotsLearned, YieldEnded, YieldRequested
from hotseat.scheduling.handover import Handover, ServerRecord
from hotseat.scheduling.lifecycle import Phase
from hotseat.scheduling.model_stats import ModelStats, StatsOfModels
from hotseat.settings import ApiKey, Budget
from hotseat.startup.restarting import OldState
from hotseat.state.fleet_state import FleetState
from hotseat.state.state_file import StateFile

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

pytestmark = pytest.mark.anyio

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs/design/restarts.md"
QWEN, LLAMA = ModelName("qwen"), ModelName("llama")
ORDERS = frozenset({"cordon"})


def rows() -> dict[str, set[str]]:
    """The facts of the table, each with what exports it."""
    table = PAGE.read_text().partition("| fact | exported by |")[2].partition("\n\n")[0]
    cells = [line.strip("|").split("|") for line in table.splitlines()[2:]]
    return {fact.strip(): set(re.findall(r"`([^`]+)`", exported)) for fact, exported, *_ in cells}


def exported(tmp_path: Path) -> Iterator[str]:
    """What the code hands over, leaves to the guard, writes to the state directory or passes on."""
    yield from (f"Handover.{name}" for name in Handover.__struct_fields__)
    yield from (f"ServerRecord.{name}" for name in ServerRecord.__struct_fields__)
    yield from (f"OldState.{name}" for name in OldState._fields if name != "scheduler")
    yield from (f"ServerDescription.{field.name}" for field in fields(ServerDescription))
    yield from (f"fleet.{name}" for name in FleetState(StateFile(tmp_path / "fleet.json"), "hotseat/a", {}).facts())
    yield from (f"Listening.{name}" for name in Listening.__struct_fields__)
    stats = StatsOfModels()
    stats.used(QWEN, stats.of(QWEN))
    yield from (f"ModelStats.{name}" for name in stats.export()[QWEN])
    yield from EVENTS
    files = r'^[A-Z_]+ = "([a-z.-]+\.json)"|"([a-z.-]+\.(?:jsonl|sqlite3))"'
    for source in (ROOT / "src/hotseat").rglob("*.py"):
        yield from {"".join(names) for names in re.findall(files, source.read_text(), re.MULTILINE)}


def records() -> dict[str, set[str]]:
    """The fields of whatever is within what is handed over, at any depth."""
    found: dict[str, set[str]] = {}
    left: list[type] = [Handover, ServerDescription, HandedConversations, Overrides, ModelStats]
    while left:
        record = left.pop()
        found[record.__name__] = {*record.__annotations__}
        named = re.findall(r"\b[A-Z]\w+", " ".join(map(str, record.__annotations__.values())))
        known = (vars(sys.modules[record.__module__]).get(name) for name in named)
        left += [each for each in known if isinstance(each, type) and is_record(each) and each.__name__ not in found]
    return found


def is_record(found: type) -> bool:
    """And not just a value of one."""
    if found.__module__ == identifiers.__name__:
        return False
    return is_dataclass(found) or hasattr(found, "__struct_fields__") or hasattr(found, "_fields")


def test_the_table_has_every_field_of_the_records_in_it() -> None:
    """Each record belongs to facts of the table above it."""
    table = PAGE.read_text().partition("| record | fields | facts |")[2].partition("\n\n")[0]
    cells = [[each.strip() for each in line.strip("|").split("|")] for line in table.splitlines()[2:]]
    listed = {record.strip("`"): set(re.findall(r"`([^`]+)`", fields)) for record, fields, _ in cells}
    in_rows = {name.partition(".")[0] for names in rows().values() for name in names}

    assert listed == {record: fields for record, fields in records().items() if record not in in_rows}
    assert {fact for *_, facts in cells for fact in facts.split(", ")} <= rows().keys()


async def test_the_table_has_every_fact_that_is_carried(tmp_path: Path) -> None:
    """And no other; each is in one row."""
    table = rows()
    listed = [name for names in table.values() for name in names]

    assert set(listed) == set(exported(tmp_path))
    assert len(listed) == len(set(listed))
    assert table.keys() == ENDS.keys() | ELSEWHERE.keys()


def test_facts_of_other_parts_are_ended_in_tests_of_their_own() -> None:
    """Each of them exists."""
    for where in ELSEWHERE.values():
        path, _, name = where.partition("::")

        assert f"def {name}(" in (ROOT / path).read_text(), where


Following: TypeAlias = "Callable[[SchedulerDriver], SchedulerDriver]"
"""Makes the driver of the next process."""


def handed(driver: SchedulerDriver, restarts: int) -> SchedulerDriver:
    """The next process, or the one after it; a handover may cause a timer, which is not judged here."""
    for _ in range(restarts):
        driver = driver.handed_over()
        driver._unasserted.clear()
    return driver


def two() -> SchedulerDriver:
    """Memory for one of two models."""
    return SchedulerDriver(one_at_a_time(model("qwen", ttl_s=60), "llama"))


def yields(following: Following) -> None:
    driver = two()
    driver >> YieldRequested("training") << nothing
    driver >> YieldRequested("a game", for_program=True) << nothing
    after = following(driver)
    after >> arrives(1, "qwen") << refuses(1, Yielding)
    after >> YieldEnded(for_program=True) << nothing
    after >> YieldEnded() << nothing
    after >> arrives(2, "qwen") << starts("qwen")


def pins_and_ttls(following: Following) -> None:
    driver = two().with_ready("qwen")
    driver >> OverridesChanged(QWEN, pinned=True, ttl_s=5) << nothing
    after = following(driver)
    after >> arrives(1, "llama") << refuses(1, NeverFits)
    after >> OverridesChanged(QWEN) << wakes_at(70)
    assert after.view("qwen").ttl_s == 60
    after >> arrives(2, "llama") << stops("qwen", cause=Cause.EVICTION)


def profile(following: Following) -> None:
    profiles = {name: Profile(name, "", {"gpt": "qwen"}) for name in ("day", "night")}
    driver = SchedulerDriver(replace(one_at_a_time("qwen"), profiles=profiles))
    driver >> ProfileChanged("night") << nothing
    after = following(driver)
    assert after.scheduler.catalog.active_profile == "night"
    for wanted in ("day", None):
        after >> ProfileChanged(wanted) << nothing
        assert after.scheduler.catalog.active_profile == wanted


def kept_alive(following: Following) -> None:
    driver = two().with_ready("qwen")
    driver >> keep_alive("qwen", 5) << wakes_at(15)
    following(driver).at(15) >> clock << stops("qwen", cause=Cause.TTL)
    after = following(driver)
    after >> keep_alive("qwen", 7) << wakes_at(17)
    after >> OverridesChanged(QWEN, ttl_s=9) << wakes_at(19)
    after.at(19) >> clock << stops("qwen", cause=Cause.TTL)


def postponed_unloads(following: Following) -> None:
    driver = two().with_ready("qwen", 1)
    driver >> handover_requested << nothing
    driver >> unload(2, "qwen") << nothing
    driver >> unload(3, "llama") << nothing
    driver >> unload(4, "qwen", force=True) << nothing
    after = following(driver)
    after >> leaves(1) << stops("qwen", cause=Cause.OPERATOR)
    after >> exited("qwen") << confirms(2) << confirms(4)


def waiting_requests(following: Following) -> None:
    driver = two().with_ready("qwen", 1)
    driver >> handover_requested << nothing
    driver >> arrives(2, "llama") << nothing
    driver >> load(3, "llama") << nothing
    after = following(driver)
    after >> leaves(2) << nothing
    after >> leaves(1) << stops("qwen")
    after >> exited("qwen") << starts("llama")
    after >> ready("llama") << confirms(3)


def leases(following: Following) -> None:
    after = following(two().with_ready("qwen", 1))
    assert after.view("qwen").in_flight == 1
    after >> leaves(1) << wakes_at(70)
    assert after.view("qwen").in_flight == 0


def failures(following: Following) -> None:
    driver = two().with_backoff("qwen")
    after = following(driver)
    after >> arrives(1, "qwen") << refuses(1)
    after >> load(2, "qwen") << starts("qwen")
    assert after.view("qwen").failures == 0
    other = following(driver)
    other.at(100) >> clock << nothing
    other >> arrives(3, "qwen") << starts("qwen")
    other >> failed("qwen") << refuses(3)
    given_up_sleep(following)
    given_up_conversations(following)


def given_up_sleep(following: Following) -> None:
    driver = SchedulerDriver(one_at_a_time(model("qwen", sleep=sleeps()), "llama")).with_ready("qwen")
    driver >> load(1, "llama") << puts_to_sleep("qwen")
    driver >> cannot_sleep("qwen") << stops("qwen")
    driver >> exited("qwen") << starts("llama")
    driver >> ready("llama") << confirms(1)
    after = following(driver)
    after.after(100) >> arrives(2, "qwen") << stops("llama")
    after >> exited("llama") << starts("qwen")
    after >> ready("qwen") << grants(2)
    after >> leaves(2) << nothing
    after = following(after)
    after.after(100) >> load(3, "llama") << stops("qwen")
    after >> exited("qwen") << starts("llama")
    after >> ready("llama") << confirms(3)
    after.after(100) >> load(4, "qwen") << stops("llama")
    after >> exited("llama") << starts("qwen")
    after >> ready("qwen") << confirms(4)
    following(after).after(100) >> load(5, "llama") << puts_to_sleep("qwen")


def given_up_conversations(following: Following) -> None:
    driver = SchedulerDriver(one_at_a_time(model("qwen", keeps_conversations=True), "llama")).with_ready("qwen")
    conversations = driver.scheduler._state.models[QWEN].conversations
    conversations.keeps_none_because, conversations.useless_restores = NOT_REUSED, TRIES
    after = following(driver)
    assert after.scheduler._state.models[QWEN].conversations.useless_restores == TRIES
    assert after.view("qwen").conversations.problem == NOT_REUSED  # type: ignore[union-attr]
    after >> load(1, "qwen") << confirms(1)
    after = following(after)
    assert after.scheduler._state.models[QWEN].conversations.useless_restores == 0
    assert after.view("qwen").conversations.problem == ""  # type: ignore[union-attr]


def others_memory(following: Following) -> None:
    driver = SchedulerDriver(with_budget(model("qwen", gib=4), model("llama", gib=10))).with_ready("qwen")
    driver >> left_by_others(5) << nothing
    after = following(driver)
    after >> arrives(1, "llama") << refuses(1, NoMemory)
    after >> left_by_others(14) << nothing
    following(after) >> arrives(2, "llama") << starts("llama")


def turns(following: Following) -> None:
    catalog = with_budget(model("qwen", gib=12), model("big", gib=20), model("llama", gib=8))
    driver = SchedulerDriver(catalog).with_ready("qwen", 1)
    driver.at(11) >> arrives(2, "big") << wakes_at(51)
    driver.at(35) >> arrives(3, "llama") << starts("llama")
    driver.at(45) >> ready("llama") << grants(3) << wakes_at(51)
    after = following(driver)
    after.at(51) >> clock << nothing
    assert after.phase("qwen") is after.phase("llama") is Phase.DRAINING
    after >> leaves(1) << stops("qwen")
    after >> leaves(3) << stops("llama")


def evictions(following: Following) -> None:
    driver = SchedulerDriver(one_at_a_time(model("qwen", concurrency_limit=1), "llama")).with_ready("qwen", 1)
    driver.at(11) >> arrives(2, "qwen") << nothing
    driver.at(12) >> arrives(3, "llama") << wakes_at(92)
    driver.at(92) >> clock << nothing
    driver.at(95) >> leaves(1) << stops("qwen")
    driver >> handover_requested << nothing
    driver.at(96) >> exited("qwen") << nothing
    after = driver.handed_over() << starts("llama")
    after >> ready("llama") << grants(3) << wakes_at(136)
    after >> leaves(2) << nothing
    after = following(after)
    after >> handover_requested << nothing
    assert after.scheduler.handover(after.now).evictions == ()


def saved_conversations(following: Following) -> None:
    driver = SchedulerDriver(one_at_a_time(model("qwen", keeps_conversations=True), "llama")).with_ready("qwen", 1)
    driver >> leaves(1) << nothing
    driver >> arrives(2, "llama") << saves("qwen")
    driver >> saved("qwen", 1000) << stops("qwen")
    driver >> exited("qwen") << starts("llama")
    driver >> ready("llama") << grants(2)
    driver >> leaves(2) << nothing
    after = following(driver)
    after.after(100) >> arrives(3, "qwen") << stops("llama")
    after >> exited("llama") << starts("qwen")
    after >> ready("qwen") << restores("qwen")
    after >> restored("qwen", 1000) << grants(3)


def sleep(following: Following) -> None:
    driver = SchedulerDriver(one_at_a_time(model("qwen", sleep=sleeps()), "llama")).with_ready("qwen")
    driver >> load(1, "llama") << puts_to_sleep("qwen", level("1"))
    driver >> asleep("qwen") << starts("llama")
    driver >> ready("llama") << confirms(1)
    after = following(driver)
    after.after(100) >> arrives(2, "qwen") << stops("llama")
    after >> exited("llama") << wakes("qwen")
    after >> awake("qwen") << grants(2)


def draining(following: Following) -> None:
    driver = two().with_ready("qwen", 1)
    driver >> unload(2, "qwen") << wakes_at(20)
    after = following(driver)
    after >> leaves(1) << stops("qwen", cause=Cause.OPERATOR)
    after >> exited("qwen") << confirms(2)


def servers(following: Following) -> None:
    after = following(two().with_ready("qwen"))
    assert after.view("qwen").is_adopted
    after >> unload(1, "qwen") << stops("qwen", launch=1)
    after >> exited("qwen") << confirms(1)
    assert (after.view("qwen").is_adopted, after.view("qwen").served) == (False, 0)
    after >> arrives(2, "qwen") << starts("qwen", launch=2)


def slots(following: Following) -> None:
    driver = two().with_ready("qwen", 1)
    driver >> SlotsLearned(QWEN, driver.launches["qwen"], 1) << nothing
    after = following(driver)
    after >> arrives(2, "qwen") << nothing
    after >> SlotsLearned(QWEN, after.launches["qwen"], 2) << grants(2)


def measured_memory(following: Following) -> None:
    driver = SchedulerDriver(with_budget(model("qwen"))).with_ready("qwen", 1)
    driver >> measured("qwen", 9) << nothing
    after = following(driver)
    assert after.view("qwen").measured == {gpu(0): 9 * GIB}
    after >> measured("qwen", 5) << nothing
    assert after.view("qwen").measured == {gpu(0): 5 * GIB}


def numbers(following: Following) -> None:
    driver = two().with_ready("qwen")
    driver >> unload(1, "qwen") << stops("qwen")
    driver >> exited("qwen") << confirms(1)
    following(driver) >> arrives(2, "qwen") << starts("qwen", launch=2)


def seen_proofs(_: Following) -> None:
    now, secret, host = [1_700_000_000.0], FleetSecret(["s" * 32]), HostName("b")
    old = ProofChecker(host, secret, lambda: now[0])
    proof = Signer(secret, lambda: now[0]).proof(host, b"said")
    old.check("a", b"said", proof)
    new = ProofChecker(host, secret, lambda: now[0])
    new.take(old.to_hand_over())
    with pytest.raises(HostUnproven, match="replays"):
        new.check("a", b"said", proof)
    now[0] += MOST_SKEW_S + 1
    assert new.to_hand_over() == []


def learned_figures(following: Following) -> None:
    after = following(two().with_ready("qwen"))
    stats = after.scheduler.model_stats.of(QWEN)
    assert stats.load_s == 10
    after >> unload(1, "qwen") << stops("qwen")
    after >> exited("qwen") << confirms(1)
    after >> load(2, "qwen") << starts("qwen")
    after.after(20) >> ready("qwen")
    after._unasserted.clear()
    assert stats.load_s == 13


ENDS: dict[str, Callable[[Following], None]] = {
    "yields": yields,
    "pins and ttls": pins_and_ttls,
    "profile": profile,
    "seen proofs": seen_proofs,
    "keep_alive": kept_alive,
    "postponed unloads": postponed_unloads,
    "waiting requests": waiting_requests,
    "leases": leases,
    "failures and backoff": failures,
    "memory left by others": others_memory,
    "evictions": evictions,
    "saved conversations": saved_conversations,
    "sleep": sleep,
    "draining": draining,
    "servers": servers,
    "turns": turns,
    "slots": slots,
    "measured memory": measured_memory,
    "learned figures": learned_figures,
    "numbers": numbers,
}
ELSEWHERE = {
    "cordon and drain": "tests/startup/test_carried_facts.py::test_a_cordon_is_revoked_in_the_next_process",
    "preload": "tests/dispatch/test_default_model.py::test_another_process_goes_on_with_the_models_of_the_startup",
    "keys of servers": "tests/journeys/test_crash_grace.py::test_a_server_demands_a_key",
    "name in the fleet": "tests/state/test_fleet_state.py::test_orders_for_another_name",
    "reload meanwhile": "tests/journeys/test_restart.py::test_a_reload_during_a_restart",
    "created keys": "tests/startup/test_carried_facts.py::test_a_created_key_is_revoked_in_the_next_process",
    "charged budgets": "tests/startup/test_carried_facts.py::test_a_days_tokens_are_used_up_in_the_next_process",
    "finished requests": "tests/startup/test_carried_facts.py::test_a_finished_request_is_forgotten_there",
    "listening sockets": "tests/handover/test_predecessor.py::test_the_addresses_have_changed",
    "first process": "tests/journeys/test_restart.py::test_the_first_process_is_killed",
    "audit": "tests/state/test_audit_file.py::test_two_processes_write_and_rotate_at_once",
}


async def test_a_cordon_is_revoked_in_the_next_process(tmp_path: Path) -> None:
    """Also if the state directory cannot be written: the old process has handed the order over."""
    for file in (StateFile(tmp_path / "fleet.json"), StateFile(Path("/proc/none/fleet.json"))):
        old = FleetState(file, "hotseat/a", {})
        old.keep_orders(ORDERS, 7)
        await old.saved()
        new = FleetState(file, "hotseat/a", old.facts())
        assert (new.orders, new.ordered_ms) == (ORDERS, 7)
        new.keep_orders(frozenset(), 8)
        await new.saved()

        assert FleetState(file, "hotseat/a", new.facts()).orders == frozenset()


async def test_a_created_key_is_revoked_in_the_next_process(tmp_path: Path) -> None:
    """The next process knows the keys, and one that it revokes is gone in the old process and in any later one."""
    old = World(tmp_path)
    await old.keys.create(ANN)
    await old.keys.create(BOB)
    new = World(tmp_path)
    known = new.names()
    await new.keys.revoke("bob")
    await old.keys.read_again()

    assert known == ["ann", "bob"]
    assert new.names() == old.names() == World(tmp_path).names() == ["ann"]


def test_a_days_tokens_are_used_up_in_the_next_process(tmp_path: Path) -> None:
    """What the old process has charged counts until midnight UTC, also after a second restart."""
    now = [20_000.5 * DAY_S]

    def process() -> Account:
        store = UsageStore(tmp_path / "usage.sqlite3", lambda: now[0])
        (account,) = Accounts(store.used_today, lambda: now[0]).open([ApiKey("k", name="ann", tokens=BUDGET)])
        return account

    for _ in range(2):
        process().enter("m")
        counter = UsageCounter(lambda: now[0])
        counter.count(QWEN, "ann", Tokens(60, 0, None))
        UsageStore(tmp_path / "usage.sqlite3", lambda: now[0]).add(counter.take())
    with pytest.raises(OverBudget):
        process().enter("m")
    now[0] += DAY_S / 2

    process().enter("m")


BUDGET = Budget(100, DAY_S)


def test_a_finished_request_is_forgotten_there(tmp_path: Path) -> None:
    """It is read there, and deleted when it is too old."""
    now = [1_700_000_000.0]
    old, new, later = (ActivityStore(tmp_path / "activity.sqlite3", lambda: now[0]) for _ in range(3))
    old.write([Finished(1, now[0], QWEN, ClientId("ann"), b"POST", b"/v1/x", 200, 0.5, 0.7, 2.5, b"id", None, "")])
    kept = new.read(0, None, 10)
    now[0] += 2 * DAY_S
    new.tidy(DAY_S)

    assert [each.id for each in kept] == [b"id"]
    assert later.read(0, None, 10) == []


@pytest.mark.parametrize("restarts", [1, 2])
@pytest.mark.parametrize("fact", ENDS)
def test_a_fact_is_ended_in_the_next_process(fact: str, restarts: int) -> None:
    """Also after a second restart."""
    ENDS[fact](lambda driver: handed(driver, restarts))
