"""How long loads take, learned by watching."""

from __future__ import annotations

from math import inf
from typing import TYPE_CHECKING, Any

import pytest
from tests.support.catalogs import model, with_budget
from tests.support.fake_launcher import catalog, spec
from tests.support.scheduler_driver import (
    arrives,
    exited,
    failed,
    grants,
    leaves,
    nothing,
    ready,
    refuses,
    starts,
    stops,
)

from hotseat.identifiers import ClientId, ModelName
from hotseat.scheduling.model_stats import (
    FRESH,
    KEPT_CLIENTS,
    KEPT_GAPS,
    KEPT_REMOVED,
    UNKNOWN_LOAD_S,
    UNKNOWN_STOP_S,
    ModelStats,
    StatsOfModels,
)
from hotseat.scheduling.state import State

if TYPE_CHECKING:
    from tests.support.scheduler_driver import NewDriver, SchedulerDriver

QWEN, LLAMA, GEMMA = ModelName("qwen"), ModelName("llama"), ModelName("gemma")


def test_before_anything_was_seen() -> None:
    """There is a guess, and it is not shown as a measurement."""
    assert StatsOfModels().load_s(QWEN) == UNKNOWN_LOAD_S
    assert StatsOfModels().of(QWEN).load_s is None


def test_the_first_measurement_replaces_the_guess() -> None:
    """One load is enough to know better."""
    stats = StatsOfModels()
    stats.loaded(QWEN, 12)

    assert stats.load_s(QWEN) == stats.of(QWEN).load_s == 12


def test_an_odd_load_does_not_count_for_ever() -> None:
    """Later loads move the figure slowly."""
    stats = StatsOfModels()
    stats.loaded(QWEN, 10)
    stats.loaded(QWEN, 40)

    assert stats.load_s(QWEN) == pytest.approx(10 + FRESH * 30)


def test_a_model_never_seen_is_like_the_others() -> None:
    """The mean of what was seen is a better guess than ours."""
    stats = StatsOfModels()
    stats.loaded(QWEN, 10)
    stats.loaded(LLAMA, 20)

    assert stats.load_s(GEMMA) == 15


def test_only_finished_loads_count(driver: SchedulerDriver) -> None:
    """A start that failed says nothing about how long a load takes."""
    driver >> arrives(1, "qwen") << starts("qwen")
    driver.at(3) >> failed("qwen") << refuses(1)
    assert driver.view("qwen").load_s is None
    driver.at(13) >> arrives(2, "qwen") << starts("qwen")
    driver >> leaves(2) << nothing
    driver.at(21) >> ready("qwen") << nothing

    assert driver.view("qwen").load_s == 8


def test_loads_beside_another_are_not_believed(new_driver: NewDriver) -> None:
    """They share the disk; only the first figure of all is taken as it comes."""
    driver = new_driver(with_budget(model("a", gib=10), model("b", gib=10)))
    driver >> arrives(1, "a") << starts("a")
    driver >> arrives(2, "b") << starts("b")
    driver.at(10) >> ready("a") << grants(1)
    driver.at(20) >> ready("b") << grants(2)
    assert (driver.view("a").load_s, driver.view("b").load_s) == (10, 20)
    driver >> exited("a") << nothing
    driver >> exited("b") << nothing
    driver >> arrives(3, "a") << starts("a")
    driver >> arrives(4, "b") << starts("b")
    driver.at(50) >> ready("a") << grants(3)

    assert driver.view("a").load_s == 10


def test_stops_are_measured(driver: SchedulerDriver) -> None:
    """From the command to the last process."""
    assert StatsOfModels().stop_s(QWEN) == UNKNOWN_STOP_S
    driver.with_ready("qwen")
    driver.at(20) >> arrives(1, "llama") << stops("qwen")
    driver.at(23) >> exited("qwen") << starts("llama")

    assert driver.scheduler.model_stats.stop_s(QWEN) == 3


def test_requests_are_measured_from_lease_to_end(driver: SchedulerDriver) -> None:
    """Waiting is not service."""
    driver.with_ready("qwen", 1)
    driver.at(14) >> leaves(1) << nothing
    stats = driver.scheduler.model_stats.of(QWEN)

    assert (stats.service_s, stats.drain_s) == (4, 4)


def test_a_long_request_is_forgotten_slowly() -> None:
    """The longest request is what a drain may take."""
    stats = ModelStats()
    for seconds in (100, 1):
        stats.served(seconds)

    assert stats.drain_s == 95
    assert 1 < stats.service_s < 100


def test_gaps_are_kept_while_the_model_is_away(driver: SchedulerDriver) -> None:
    """The time to the next use says as much about a model that was evicted."""
    driver.with_ready("qwen", 1)
    driver.at(11) >> leaves(1) << nothing
    driver.at(12) >> arrives(2, "llama", "another") << stops("qwen")
    driver.at(14) >> arrives(3, "qwen") << nothing

    assert list(driver.scheduler.model_stats.of(QWEN).reuse_gaps) == [3]


def test_reads_are_no_use(driver: SchedulerDriver) -> None:
    """A dashboard that polls every second says nothing about reuse."""
    driver.with_ready("qwen", 1)
    driver.at(11) >> leaves(1) << nothing
    driver.at(12) >> arrives(2, "qwen", reads=True) << grants(2)
    driver.at(13) >> leaves(2) << nothing

    assert list(driver.scheduler.model_stats.of(QWEN).gaps) == []


def test_what_is_kept_is_bounded() -> None:
    """However many clients come, however often."""
    stats = StatsOfModels()
    for n in range(KEPT_CLIENTS + 10):
        stats.went(QWEN, stats.of(QWEN), ClientId(str(n)), n, n + 1)
        stats.of(QWEN).used_again(n, straight=True)

    assert len(stats._last_visits) == KEPT_CLIENTS
    assert len(stats.of(QWEN).gaps) == KEPT_GAPS


def test_what_was_learned_of_removed_models_is_bounded() -> None:
    """However many models a configuration names over time: those that left it last are known when they come back."""
    state = State(catalog(spec("qwen")))
    names = [ModelName(f"model-{n}") for n in range(KEPT_REMOVED + 10)]
    for n, name in enumerate(names):
        state.add(spec(name), None)
        state.model_stats.loaded(name, float(n))
        state.forget(name)
    state.add(spec(names[-1]), None)
    for other in names[10:-1]:  # it is not the next one to be forgotten
        state.add(spec(other), None)
        state.forget(other)

    assert len(state.model_stats._of) == KEPT_REMOVED + 1
    assert len(state.model_stats._used) == KEPT_REMOVED
    assert state.model_stats.load_s(names[-1]) == KEPT_REMOVED + 9
    assert state.model_stats.load_s(names[0]) == pytest.approx(sum(range(10, KEPT_REMOVED + 10)) / KEPT_REMOVED)


def test_what_was_learned_survives_a_restart() -> None:
    """Exported as plain data, adopted as it was."""
    before, after = StatsOfModels(), StatsOfModels()
    before.loaded(QWEN, 12)
    before.of(QWEN).stopped(2)
    before.of(QWEN).served(3)
    before.of(QWEN).used_again(0.5, straight=True)
    before.of(QWEN).used_again(9, straight=False)
    before.of(LLAMA)
    after.adopt(before.export())

    assert set(before.export()) == {QWEN}
    assert after.of(QWEN) == before.of(QWEN)
    assert list(after.of(QWEN).reuse_gaps) == [0.5, inf]
    assert after.load_s(GEMMA) == 12


def test_what_was_learned_is_recalled_twice() -> None:
    """As in a restart, which reads the file at the start and once the old process has handed over: it counts once."""
    before, after = StatsOfModels(), StatsOfModels()
    for gap in (5, 7):
        before.loaded(QWEN, 12)
        before.of(QWEN).used_again(gap, straight=True)
        before.of(QWEN).sleep_stats(str(gap)).woke(1, 2)
        after.adopt(before.export())

    assert after.of(QWEN) == before.of(QWEN)
    assert list(after.of(QWEN).gaps) == [5, 7]


@pytest.mark.parametrize("junk", [7, None, [], {"load_s": "long"}, {"load_s": -1}, {"gaps": 3}, {"load_s": True}])
def test_what_does_not_look_like_stats_is_ignored(junk: Any) -> None:
    """An old or broken file costs a little learning, nothing else."""
    stats = StatsOfModels()
    stats.adopt({"qwen": junk})

    assert stats.of(QWEN) == ModelStats()
