"""The lag of the event loop."""

from __future__ import annotations

import asyncio
import time
from typing import TYPE_CHECKING

from tests.support.waiting import come_true

from hotseat.tasks import Tasks
from hotseat.telemetry import shortages as lag_module
from hotseat.telemetry.shortages import Lag

if TYPE_CHECKING:
    import pytest


async def test_a_blocked_loop_shows_for_a_while(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whoever asks sees the worst lag of the last samples, however many others have asked."""
    monkeypatch.setattr(lag_module, "EVERY_S", 0.01)
    monkeypatch.setattr(lag_module, "KEPT", 3)
    lag, tasks = Lag(), Tasks()
    tasks.start(lag.watch(), "lag")
    await asyncio.sleep(0)
    time.sleep(0.1)  # blocks the loop on purpose
    await come_true(lambda: lag.worst_of_last_minute() >= 0.08)
    again = lag.worst_of_last_minute()
    await come_true(lambda: lag.worst_of_last_minute() < again)
    await tasks.aclose()

    assert again >= 0.08
