"""The table of legal moves."""

from __future__ import annotations

import itertools

import pytest

from hotseat.errors import InvalidMove
from hotseat.scheduling.lifecycle import TABLE, Move, Phase, after


@pytest.mark.parametrize(("phase", "move"), [pair for pair in itertools.product(Phase, Move) if pair not in TABLE])
def test_a_move_that_is_not_in_the_table_cannot_happen(phase: Phase, move: Move) -> None:
    """Asking for it is a bug; the error says what the model was doing."""
    with pytest.raises(InvalidMove, match=f"a {phase.value} model cannot {move.value}: qwen, of all models"):
        after(phase, move, "qwen, of all models")


def test_there_is_one_way_out_of_ready() -> None:
    """A ready model passes through draining, unless it crashes."""
    ways = {move: end for (start, move), end in TABLE.items() if start is Phase.READY}

    assert ways == {Move.DRAIN: Phase.DRAINING, Move.CRASH: Phase.BACKOFF}


def test_nothing_leads_back_from_leaving() -> None:
    """A draining or stopping model never becomes ready again."""
    ends = {end for (start, _), end in TABLE.items() if start in (Phase.DRAINING, Phase.UNLOADING)}

    assert Phase.READY not in ends


def test_every_phase_can_be_reached_and_left() -> None:
    """There is no dead end in a model's life."""
    assert {start for start, _ in TABLE} == set(TABLE.values()) == set(Phase)
