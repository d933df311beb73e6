"""The scheduler decides as it did when the golden file was written."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from bench.scheduling.golden import TOLERANCE, cells, key, numbers, read_golden

if TYPE_CHECKING:
    from bench.scheduling.runs import Cell

pytestmark = pytest.mark.uncounted


@pytest.mark.parametrize("cell", cells(), ids=key)
def test_a_scenario_has_its_golden_numbers(cell: Cell) -> None:
    """After an intended change, `just bench-scheduling --golden` writes the file, and its diff shows the effect."""
    assert numbers(cell) == pytest.approx(read_golden()[key(cell)], rel=TOLERANCE)


def test_no_golden_number_is_left_over() -> None:
    """Every number in the file is compared."""
    assert list(read_golden()) == [key(cell) for cell in cells()]
