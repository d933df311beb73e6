"""What was learned is kept across restarts, and nothing fails for it."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

from hotseat.dispatch.journal import Entry
from hotseat.identifiers import Address, ClientId, LaunchId, ModelName, Upstream
from hotseat.scheduling.events import ClockReached, UpstreamReady
from hotseat.scheduling.model_stats import StatsOfModels
from hotseat.state.learned_store import MOST, LearnedStore
from hotseat.state.model_stats_store import BETWEEN_SAVES_S, ModelStatsStore

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

QWEN = ModelName("qwen")
READY = Entry(1, 0.0, UpstreamReady(QWEN, LaunchId(1), Upstream(Address("localhost", 1))), ())


def learned(seconds: float) -> StatsOfModels:
    stats = StatsOfModels()
    stats.loaded(QWEN, seconds)
    return stats


def store_of(file: Path, stats: StatsOfModels, clock: Callable[[], float] = lambda: 0.0) -> ModelStatsStore:
    return ModelStatsStore(LearnedStore(file).section("model_stats"), stats, clock)


def written(file: Path) -> dict[str, Any]:
    stats: dict[str, Any] = json.loads(file.read_text())["model_stats"]
    return stats


def test_a_restart(tmp_path: Path) -> None:
    """The next run begins with what this one learned; other models in the file stay."""
    file = tmp_path / "deep" / "learned.json"
    store_of(file, learned(12)).save()
    LearnedStore(file).section("model_stats").keep("other", {"load_s": 3})
    again = StatsOfModels()
    learned_store = store_of(file, again)
    learned_store.recall()
    learned_store.save()

    assert again.load_s(QWEN) == 12
    assert written(file)["other"]["load_s"] == 3
    assert [each.name for each in file.parent.iterdir()] == ["learned.json"]


def test_of_many_models_the_last_used_are_remembered(tmp_path: Path) -> None:
    """Wherever they stand in the configuration, and across restarts; models that were not used make no difference."""
    file, names = tmp_path / "learned.json", [ModelName(f"m{n}") for n in range(MOST + 100)]
    first = StatsOfModels()
    for name in [*names, names[0]]:
        first.loaded(name, 1)
    store_of(file, first).save()
    again = StatsOfModels()
    for name in names:  # as the scheduler does, in configured order
        again.of(name)
    second = store_of(file, again)
    second.recall()
    again.went(names[1], again.of(names[1]), ClientId("somebody"), 0.0, 1.0)
    second.save()

    assert list(written(file))[-2:] == ["m0", "m1"]
    assert len(written(file)) == MOST


def test_loads_are_written_down_now_and_then(tmp_path: Path) -> None:
    """Frequent loads do not cause a write each."""
    now = 0.0
    stats, file = learned(1), tmp_path / "learned.json"
    learned_store = store_of(file, stats, lambda: now)
    learned_store.watch(Entry(1, 0.0, ClockReached(), ()))
    assert not file.exists()
    learned_store.watch(READY)
    stats.loaded(QWEN, 11)
    learned_store.watch(READY)
    assert written(file)["qwen"]["load_s"] == 1
    now = BETWEEN_SAVES_S
    learned_store.watch(READY)

    assert written(file)["qwen"]["load_s"] == 4


@pytest.mark.parametrize("content", ["{", "[1, 2]"])
def test_a_file_that_is_none_of_ours(tmp_path: Path, content: str) -> None:
    """It is passed over, and replaced at the next occasion."""
    file = tmp_path / "learned.json"
    file.write_text(content)
    learned_store = store_of(file, learned(5))
    learned_store.recall()
    learned_store.save()

    assert written(file)["qwen"]["load_s"] == 5


def test_a_place_where_nothing_can_be_written(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """Said once; everything else goes on."""
    (tmp_path / "file").write_text("")
    learned_store = store_of(tmp_path / "file" / "learned.json", learned(5))
    for _ in range(2):
        learned_store.save()

    said = [record.message.partition(" file=")[0] for record in caplog.records]
    assert said == ["stored state cannot be read", "stored state cannot be saved"]
