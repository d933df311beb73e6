"""The reason of every unload names the rule that decided."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pytest
from tests.support.catalogs import in_groups, in_sets, model, one_at_a_time, sleeps, with_budget
from tests.support.scheduler_driver import (
    SchedulerDriver,
    changed,
    clock,
    left_by_others,
    load,
    shutdown,
    unload,
    unresponsive,
)

from hotseat.catalog.groups import Group
from hotseat.identifiers import ModelName
from hotseat.scheduling.commands import Cause, PutToSleep, StopUpstream
from hotseat.scheduling.events import YieldRequested

if TYPE_CHECKING:
    from hotseat.catalog.catalog import Catalog

A, B, C = (ModelName(name) for name in "abc")
ABC = ("a", "b", "c")
SWAPS = Group("pair", exclusive=False, members=(A, B))
EXCLUSIVE = Group("mine", swap=False, members=(A,))
OTHERS = Group("yours", swap=False, exclusive=False, members=(B, C))
PAIRS = ("a b", "a c", "b c")


@dataclass(frozen=True)
class Unload:
    """`events` after these models were loaded; the first of them leaves."""

    catalog: Catalog
    events: tuple[Any, ...]
    reason: str
    cause: Cause = Cause.EVICTION
    before: tuple[str, ...] = ("b",)


FOR_A = (load(9, "a"),)
RULES = {
    "memory": Unload(with_budget(model("a", gib=20), model("b", gib=20)), FOR_A, "unloaded to free memory for a"),
    "memory of the new model not known": Unload(
        with_budget(model("a"), model("b", gib=2)),
        FOR_A,
        "unloaded to free memory for a: the memory of a is not known, so it takes all of its device",
    ),
    "memory of the old model not known": Unload(
        with_budget(model("a", gib=2), model("b")),
        FOR_A,
        "unloaded to free memory for a: the memory of b is not known, so it takes all of its device",
    ),
    "one at a time": Unload(one_at_a_time(*ABC), FOR_A, "unloaded for a: models run one at a time without `devices`"),
    "a group that swaps": Unload(
        in_groups(SWAPS, models=ABC), FOR_A, "unloaded for a: group pair runs one of its models at a time"
    ),
    "an exclusive group": Unload(
        in_groups(EXCLUSIVE, OTHERS, models=ABC), FOR_A, "unloaded for a: group mine is exclusive"
    ),
    "a model in no group": Unload(
        in_groups(OTHERS, models=ABC), FOR_A, "unloaded for a: a is in no group, so it runs alone"
    ),
    "a matrix without both": Unload(
        in_sets("a", "b", models=ABC), FOR_A, "unloaded for a: no set of the matrix has both"
    ),
    "a matrix without all three": Unload(
        in_sets(*PAIRS, models=ABC),
        FOR_A,
        "unloaded for a: no set of the matrix has all of the loaded models",
        before=("c", "b"),
    ),
    "sleep": Unload(
        one_at_a_time(model("a"), model("b", sleep=sleeps())),
        FOR_A,
        "unloaded for a: models run one at a time without `devices`",
    ),
    "ttl": Unload(one_at_a_time(model("b", ttl_s=5)), (clock,), "idle for its ttl of 5 s", Cause.TTL),
    "operator": Unload(one_at_a_time("b"), (unload(9, "b"),), "stopped by an operator", Cause.OPERATOR),
    "yield": Unload(
        with_budget(model("b", gib=2)), (YieldRequested("a game runs", frozenset()),), "a game runs", Cause.YIELD
    ),
    "other programs": Unload(
        with_budget(model("b", gib=20)),
        (left_by_others(1),),
        "19 GiB more of gpu0 than the 1 GiB",
        Cause.EXCEEDS_MEMORY,
    ),
    "reload": Unload(
        one_at_a_time("b"), (changed(one_at_a_time(model("b", 2))),), "its configuration changed", Cause.CONFIGURATION
    ),
    "shutdown": Unload(one_at_a_time("b"), (shutdown(),), "hotseat is shutting down", Cause.SHUTDOWN),
    "unresponsive": Unload(
        one_at_a_time("b"),
        (unresponsive("b"),),
        "b is unresponsive: it answered neither requests nor its health check",
        Cause.UNRESPONSIVE,
    ),
}


@pytest.mark.parametrize("rule", RULES.values(), ids=RULES)
def test_a_reason_names_the_rule_that_decided(rule: Unload) -> None:
    """Memory is named only where memory decided."""
    driver = SchedulerDriver(rule.catalog)
    for name in rule.before:
        driver.with_ready(name)
    driver.after(30)
    for event in rule.events:
        driver >> event
    gone = next(each for each in driver._unasserted if isinstance(each, StopUpstream | PutToSleep))
    driver._unasserted.clear()

    assert gone.model == rule.before[0]
    assert rule.reason in gone.reason
    assert not isinstance(gone, StopUpstream) or gone.cause is rule.cause
    assert ("memory" in gone.reason) is ("memory" in rule.reason), gone.reason
    assert gone.reason in driver.why(gone.model)
