"""The lifecycle of a model server: phases and the table of legal moves.

    cold ──▶ loading ──▶ ready ──▶ draining ──▶ unloading ──▶ cold
                │          │
                └──────────┴──▶ backoff: it failed and waits before the next try

    draining ──▶ unloading ──▶ asleep ──▶ loading ──▶ ready, where the server can sleep

A move that is not in the table is a bug and raises InvalidMove. The diagram in docs/design/lifecycle.md is generated
from this table.

A ready model always passes through draining, for no time if nobody uses it, so that there is one way to stop. A
draining model never becomes ready again: requests for it wait for a fresh start, because a server that was told to
stop cannot be trusted with a request.

Falling asleep is a kind of unloading and waking is a kind of loading: for other models both only mean that memory will
be free, or taken. `ModelState.sleep_level` tells them apart. In the same way saving conversations is a part of
unloading, and restoring them is a part of loading.
"""

from __future__ import annotations

from enum import Enum

from hotseat.errors import InvalidMove


class Phase(Enum):
    COLD = "cold"
    LOADING = "loading"
    READY = "ready"
    DRAINING = "draining"
    UNLOADING = "unloading"
    BACKOFF = "backoff"
    ASLEEP = "asleep"

    @property
    def takes_memory(self) -> bool:
        """Memory is free once the process is gone, not when it is told to stop."""
        return self not in (Phase.COLD, Phase.BACKOFF)


class Move(Enum):
    START = "start"
    BECOME_READY = "become ready"
    FAIL = "fail to start"
    CRASH = "exit unexpectedly"
    DRAIN = "drain"
    STOP = "stop"
    EXIT = "exit as requested"
    RECOVER = "backoff ends"
    SAVE = "save its conversations"
    SUSPEND = "be put to sleep"
    FALL_ASLEEP = "fall asleep"
    WAKE = "be woken"
    DIE = "exit while asleep"
    ADOPT = "be adopted from the previous process"
    ADOPT_ASLEEP = "be adopted asleep"
    CONTINUE_BACKOFF = "go on with the previous process's backoff"


TABLE: dict[tuple[Phase, Move], Phase] = {
    (Phase.COLD, Move.START): Phase.LOADING,
    (Phase.LOADING, Move.BECOME_READY): Phase.READY,
    (Phase.LOADING, Move.FAIL): Phase.BACKOFF,
    (Phase.LOADING, Move.STOP): Phase.UNLOADING,
    (Phase.READY, Move.DRAIN): Phase.DRAINING,
    (Phase.READY, Move.CRASH): Phase.BACKOFF,
    (Phase.DRAINING, Move.STOP): Phase.UNLOADING,
    (Phase.DRAINING, Move.CRASH): Phase.BACKOFF,
    (Phase.UNLOADING, Move.EXIT): Phase.COLD,
    (Phase.BACKOFF, Move.RECOVER): Phase.COLD,
    (Phase.DRAINING, Move.SAVE): Phase.UNLOADING,
    (Phase.DRAINING, Move.SUSPEND): Phase.UNLOADING,
    (Phase.UNLOADING, Move.FALL_ASLEEP): Phase.ASLEEP,
    (Phase.UNLOADING, Move.STOP): Phase.UNLOADING,
    (Phase.ASLEEP, Move.WAKE): Phase.LOADING,
    (Phase.ASLEEP, Move.STOP): Phase.UNLOADING,
    (Phase.ASLEEP, Move.DIE): Phase.COLD,
    (Phase.LOADING, Move.DIE): Phase.COLD,
    (Phase.COLD, Move.ADOPT): Phase.READY,
    (Phase.COLD, Move.ADOPT_ASLEEP): Phase.ASLEEP,
    (Phase.COLD, Move.CONTINUE_BACKOFF): Phase.BACKOFF,
}


def after(phase: Phase, move: Move, details: str = "") -> Phase:
    """The phase after `move`; InvalidMove, with `details`, if the table has no such move."""
    try:
        return TABLE[phase, move]
    except KeyError:
        raise InvalidMove(f"a {phase.value} model cannot {move.value}: {details}") from None
