"""The loop's lag."""

from __future__ import annotations

import asyncio
import time
from typing import TYPE_CHECKING

from tests.support.waiting import come_true

from hotseat.tasks import Tasks
from hotseat.telemetry import loop_lag as lag_module
from hotseat.telemetry.loop_lag import Lag

if TYPE_CHECKING:
    import pytest


async def test_a_blocked_loop_shows_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """The worst lag since the last read is returned once."""
    monkeypatch.setattr(lag_module, "EVERY_S", 0.01)
    lag, tasks = Lag(), Tasks()
    tasks.start(lag.watch(), "lag")
    await asyncio.sleep(0)
    time.sleep(0.1)  # blocks the loop on purpose
    await come_true(lambda: lag.worst_since_asked() >= 0.08)
    await tasks.aclose()

    assert lag.worst_since_asked() == 0
