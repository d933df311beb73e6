"""The scheduler decides as it did when its figures were last written down."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from bench.scheduling.golden import TOLERANCE, cells, key, numbers, read_golden

if TYPE_CHECKING:
    from bench.scheduling.runs import Cell

pytestmark = pytest.mark.uncounted


@pytest.mark.parametrize("cell", cells(), ids=key)
def test_a_scenario_has_its_golden_numbers(cell: Cell) -> None:
    """Whoever changes a decision on purpose runs `just bench-scheduling --golden` and sees in the diff what it did."""
    assert numbers(cell) == pytest.approx(read_golden()[key(cell)], rel=TOLERANCE)


def test_no_golden_number_is_left_over() -> None:
    """Every number that is kept is also compared."""
    assert list(read_golden()) == [key(cell) for cell in cells()]
