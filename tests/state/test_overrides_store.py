"""What operators have set for models outlives the process."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest
from tests.support.catalogs import one_at_a_time

from hotseat.catalog.spec import NO_OVERRIDES, Overrides
from hotseat.dispatch.journal import Journal
from hotseat.identifiers import ModelName
from hotseat.scheduling.events import OverridesChanged
from hotseat.state.overrides_store import OverridesStore, from_json
from hotseat.state.state_file import StateFile

if TYPE_CHECKING:
    from pathlib import Path

QWEN, LLAMA = ModelName("qwen"), ModelName("llama")
RIG = one_at_a_time("qwen", "llama")
PINNED, SHORT = Overrides(pinned=True), Overrides(ttl_s=60)


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "state" / "overrides.json"


def store(file: Path) -> OverridesStore:
    return OverridesStore(StateFile(file))


def changed(by: OverridesStore, overrides: dict[ModelName, Overrides]) -> None:
    journal = Journal()
    journal.listen(by.watch)
    for name, each in overrides.items():
        journal.record(OverridesChanged(name, each.pinned, each.ttl_s), [])


def test_what_was_set_is_applied_by_the_next_run(file: Path) -> None:
    """For each model what was set for it, and nothing else."""
    changed(store(file), {QWEN: PINNED, LLAMA: SHORT})

    assert store(file).applied_to(RIG).overrides == {QWEN: PINNED, LLAMA: SHORT}


def test_what_was_taken_back_is_forgotten(file: Path) -> None:
    """The next run follows the configuration."""
    one_run = store(file)
    changed(one_run, {QWEN: PINNED})
    changed(one_run, {QWEN: NO_OVERRIDES})

    assert store(file).applied_to(RIG) == RIG


def test_what_was_taken_back_is_handed_over(file: Path) -> None:
    """The file may still have it, because it cannot be written; what it has for a missing model counts."""
    one_run = store(file)
    changed(one_run, {QWEN: PINNED, LLAMA: SHORT})
    handed = one_run.to_hand_over(one_at_a_time("qwen"))

    assert {**store(file).kept(), **from_json(handed)} == {QWEN: NO_OVERRIDES, LLAMA: SHORT}


def test_a_model_is_missing_for_one_run(file: Path) -> None:
    """Its folder may not have been mounted, or another hotseat uses the same file: what was set for it stays."""
    changed(store(file), {QWEN: PINNED, LLAMA: SHORT})
    one_run = store(file)
    one_run.applied_to(one_at_a_time("llama"))
    changed(one_run, {LLAMA: NO_OVERRIDES})

    assert store(file).applied_to(RIG).overrides == {QWEN: PINNED}


def test_without_overrides_nothing_is_written(file: Path) -> None:
    """There is no file as long as nobody sets anything."""
    one_run = store(file)
    one_run.applied_to(RIG)
    changed(one_run, {QWEN: NO_OVERRIDES})

    assert not file.exists()


@pytest.mark.parametrize("content", ["", "{", "[]", '{"format": 2}', '{"format": 1, "models": [1]}'])
def test_a_broken_file_does_not_stop_the_start(file: Path, content: str) -> None:
    """It counts as empty."""
    file.parent.mkdir()
    file.write_text(content)

    assert store(file).applied_to(RIG) == RIG


def test_a_broken_file_is_kept_beside_the_new_one(file: Path) -> None:
    """Later changes leave it alone."""
    file.parent.mkdir()
    file.write_text("broken")
    one_run = store(file)
    changed(one_run, {QWEN: PINNED})
    changed(one_run, {LLAMA: SHORT})

    assert file.with_name("overrides.json.unreadable").read_text() == "broken"


@pytest.mark.parametrize(
    ("entry", "understood"),
    [
        ({"pinned": True, "ttl": "soon"}, {QWEN: PINNED}),
        ({"pinned": 1, "ttl": 60}, {QWEN: SHORT}),
        ({"ttl": -1}, {}),
        ({"ttl": 10**400}, {}),
        ({"ttl": 2e9}, {}),
        ({"ttl": True}, {}),
        ([], {}),
    ],
)
def test_a_value_that_is_not_valid_counts_as_not_set(
    file: Path, entry: object, understood: dict[ModelName, Overrides]
) -> None:
    """The rest of the file is used."""
    file.parent.mkdir()
    file.write_text(json.dumps({"format": 1, "models": {"qwen": entry}}))

    assert store(file).applied_to(RIG).overrides == understood
