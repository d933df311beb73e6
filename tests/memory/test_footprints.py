"""Measured footprints across restarts."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from tests.support.machines import GiB

from hotseat.catalog.spec import LaunchRecipe
from hotseat.identifiers import DeviceName, LaunchId
from hotseat.memory.measurement import Use
from hotseat.memory.model_figures import LIVES, Footprints, RecipeKey, key_of
from hotseat.state.learned_store import LearnedStore

if TYPE_CHECKING:
    from pathlib import Path

    from hotseat.state.learned_store import Section

GPU, RAM = DeviceName("gpu0"), DeviceName("ram")
QWEN = key_of(LaunchRecipe(("llama-server", "-m", "qwen.gguf"), "http://127.0.0.1"))


@pytest.fixture
def section(tmp_path: Path) -> Section:
    return LearnedStore(tmp_path / "learned.json").section("memory")


def test_a_footprint_belongs_to_the_command(section: Section) -> None:
    """Another context size is another footprint, and so is another environment; the address is not."""
    same = key_of(LaunchRecipe(("llama-server", "-m", "qwen.gguf"), "http://127.0.0.1:9000"))
    larger = key_of(LaunchRecipe(("llama-server", "-m", "qwen.gguf", "-c", "32768"), "http://127.0.0.1"))
    pinned = key_of(LaunchRecipe(("llama-server", "-m", "qwen.gguf"), "", env=(("CUDA_VISIBLE_DEVICES", "1"),)))
    Footprints(section).note(QWEN, LaunchId(1), {GPU: Use(GiB)})

    assert len({QWEN, same, larger, pinned}) == 3
    assert Footprints(section).peak(same) == {GPU: Use(GiB)}
    assert Footprints(section).peak(larger) is None


def test_the_peak_of_a_life_is_kept(section: Section) -> None:
    """It grows while requests are served, never falls within a launch, and the next hotseat knows it."""
    footprints = Footprints(section)
    grew = [footprints.note(QWEN, LaunchId(1), {GPU: Use(gib * GiB), RAM: Use(GiB, 4 * GiB)}) for gib in (10, 12, 11)]

    assert grew == [True, True, False]
    assert Footprints(section).peak(QWEN) == {GPU: Use(12 * GiB), RAM: Use(GiB, 4 * GiB)}


def test_nothing_seen_is_no_life(section: Section) -> None:
    """A server that could not be measured does not displace earlier launches."""
    footprints = Footprints(section)
    footprints.note(QWEN, LaunchId(1), {GPU: Use(GiB)})
    grew = [footprints.note(QWEN, LaunchId(launch), {}) for launch in range(2, 2 * LIVES)]

    assert not any(grew)
    assert footprints.peak(QWEN) == {GPU: Use(GiB)}


def test_slow_growth_adds_up(section: Section) -> None:
    """One more page is not stored, but the sum of many is."""
    footprints = Footprints(section)
    grew = [footprints.note(QWEN, LaunchId(1), {GPU: Use(1000 + step)}) for step in range(0, 25, 4)]

    assert grew == [True, False, False, True, False, False, True]
    assert footprints.peak(QWEN) == {GPU: Use(1024)}


def test_a_peak_of_long_ago_is_forgotten(section: Section) -> None:
    """After some launches without it, a large peak no longer counts."""
    for life in range(LIVES + 1):
        footprints = Footprints(section)  # each launch by another hotseat, whose launches count from one
        footprints.note(QWEN, LaunchId(1), {GPU: Use((20 if life == 0 else 10) * GiB)})
        largest = footprints.peak(QWEN)

        assert largest == {GPU: Use((20 if life < LIVES else 10) * GiB)}


def test_a_launch_that_outlives_several_hotseats_is_one_entry(section: Section) -> None:
    """Its own peak and those of earlier launches are kept; the next launch is another entry."""
    Footprints(section).note(QWEN, LaunchId(6), {RAM: Use(20 * GiB)})
    Footprints(section).note(QWEN, LaunchId(7), {GPU: Use(10 * GiB)})
    for _ in range(LIVES):
        footprints = Footprints(section)
        grew = footprints.note(QWEN, LaunchId(7), {GPU: Use(6 * GiB)}, is_adopted=True)

        assert not grew
        assert footprints.peak(QWEN) == {GPU: Use(10 * GiB), RAM: Use(20 * GiB)}
    footprints = Footprints(section)
    for launch in range(8, 8 + LIVES):
        footprints.note(QWEN, LaunchId(launch), {GPU: Use(6 * GiB)})
    assert footprints.peak(QWEN) == {GPU: Use(6 * GiB)}


def test_an_adopted_launch_that_was_never_measured_is_a_new_entry(section: Section) -> None:
    """Also if the file has no number of a launch, as from an earlier version."""
    section.keep(QWEN, {"lives": [{GPU: {"anonymous": GiB}}] * LIVES})
    footprints = Footprints(section)
    footprints.note(QWEN, LaunchId(7), {GPU: Use(2 * GiB)}, is_adopted=True)

    assert len(section.recall()[QWEN]["lives"]) == LIVES
    assert footprints.peak(QWEN) == {GPU: Use(2 * GiB)}


def test_what_another_process_has_measured_meanwhile_is_recalled(section: Section) -> None:
    """It is not overwritten."""
    old, new = Footprints(section), Footprints(section)
    old.note(QWEN, LaunchId(7), {GPU: Use(10 * GiB)})
    new.recall()
    new.note(QWEN, LaunchId(7), {GPU: Use(6 * GiB)}, is_adopted=True)
    new.note(QWEN, LaunchId(7), {RAM: Use(GiB)}, is_adopted=True)

    assert new.peak(QWEN) == Footprints(section).peak(QWEN) == {GPU: Use(10 * GiB), RAM: Use(GiB)}


def test_facts_that_make_no_sense_are_no_facts(section: Section) -> None:
    """The file may have been edited by hand."""
    for number, fact in enumerate([None, 7, {"lives": 3}, {"lives": [{"gpu0": 12}]}, {"lives": [{"gpu0": {"x": 1}}]}]):
        section.keep(str(number), fact)
    footprints = Footprints(section)

    assert [footprints.peak(RecipeKey(str(number))) for number in range(5)] == [None] * 5
