"""Models side by side, by what memory really allows: eight real servers, 200 requests, and scales that never rest."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from bench.room.journey import MIB, SMALL, make_models, play, trace

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = [pytest.mark.llama, pytest.mark.timeout(180)]

BUDGET = 420 * MIB


def test_many_models_share_the_memory_there_is(tmp_path: Path) -> None:
    """Nobody said how large they are; the budget holds all the same, and most loads are saved."""
    models = make_models(tmp_path, SMALL)
    asked = trace(list(models), 200)
    together = play(tmp_path / "together", models, asked, BUDGET)
    alone = play(tmp_path / "alone", models, asked, None)

    assert (together.requests, together.failures, alone.failures) == (200, 0, 0)
    assert together.peak <= 1.05 * BUDGET, together
    assert together.looks > 50, together
    assert alone.loads >= 3 * together.loads, (alone, together)
