"""The scheduler decides as it did when its golden figures were recorded."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from bench.scheduling.expected import TOLERANCE, golden_cells, key, numbers, read_golden

if TYPE_CHECKING:
    from bench.scheduling.runs import Cell


@pytest.mark.parametrize("cell", golden_cells(), ids=key)
def test_a_scenario_has_its_golden_numbers(cell: Cell) -> None:
    """After an intended change, run `just bench-scheduling --golden` and review the diff."""
    assert numbers(cell) == pytest.approx(read_golden()[key(cell)], rel=TOLERANCE)


def test_no_golden_number_is_left_over() -> None:
    """Every number that is kept is also compared."""
    assert list(read_golden()) == [key(cell) for cell in golden_cells()]
