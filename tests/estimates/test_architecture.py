"""The cache: cells, windows and states, with sizes computed by hand."""

from __future__ import annotations

import pytest

from hotseat.estimates.architecture import CacheRules, Layer, dealt, window_cells
from hotseat.estimates.quants import BY_NAME

F16, Q8 = BY_NAME["f16"], BY_NAME["q8_0"]


@pytest.mark.parametrize(
    ("context", "slots", "unified", "each", "streams"),
    [(8192, 4, True, 8192, 1), (100, 1, True, 256, 1), (4096, 2, False, 2048, 2), (1000, 3, False, 512, 3)],
)
def test_cells_are_rounded_up_per_slot(context: int, slots: int, unified: bool, each: int, streams: int) -> None:
    """Each slot's own cache is rounded up separately."""
    cells = dealt(context, slots, unified)

    assert (cells.each, cells.streams, cells.all) == (each, streams, each * streams)


def test_grouped_heads_make_a_small_cache() -> None:
    """8 layers × 4,096 cells × (256 keys + 256 values) × 2 bytes."""
    rules = CacheRules(dealt(4096, 1, True), 512, F16, F16)

    assert rules.size([Layer(256, 256)] * 8) == 8 * 4096 * 512 * 2


def test_quantised_caches_count_whole_blocks() -> None:
    """q8_0 stores 32 numbers in 34 bytes."""
    rules = CacheRules(dealt(4096, 1, True), 512, Q8, F16)

    assert rules.size([Layer(256, 256)]) == 4096 * (256 // 32 * 34 + 256 * 2)


@pytest.mark.parametrize(
    ("slots", "unified", "cells"), [(1, True, 1536), (4, True, 4608), (2, False, 1536)], ids=["one", "shared", "own"]
)
def test_a_window_needs_itself_and_a_micro_batch(slots: int, unified: bool, cells: int) -> None:
    """This holds for every sequence that shares the cache, rounded up."""
    assert window_cells(1024, dealt(8192, slots, unified), 512) == cells


def test_a_window_larger_than_the_context_is_no_window() -> None:
    """`--swa-full` disables windows too."""
    small, full = dealt(512, 1, True), CacheRules(dealt(8192, 1, True), 512, F16, F16, windows_in_full=True)

    assert window_cells(1024, small, 512) == 512
    assert full.cells_of(Layer(1, 1, window=1024)) == 8192


def test_states_count_per_sequence_and_not_per_token() -> None:
    """A recurrent layer's memory does not grow with the text."""
    short, long = (CacheRules(dealt(context, 4, True), 512, F16, F16) for context in (512, 65536))

    assert short.size([Layer(state=1000)]) == long.size([Layer(state=1000)]) == 4 * 1000 * 4
