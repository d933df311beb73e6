"""Each swap is one line; thrash is warned of, but not at every swap."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from hotseat.dispatch.reports import BETWEEN_WARNINGS_S, SwapLog
from hotseat.identifiers import ClientId, ModelName
from hotseat.scheduling.commands import Evicted, ReportSwap

if TYPE_CHECKING:
    import pytest


def swap(age_s: float) -> ReportSwap:
    went = Evicted(ModelName("old"), "unused for 3.0 s", age_s, 10, 7)
    return ReportSwap(ModelName("new"), ClientId("ann"), 15, 9, 8, (went,), "started for 1 request")


def test_one_line_per_swap(caplog: pytest.LogCaptureFixture) -> None:
    """The client and its wait, the expected and measured load, what was evicted and why."""
    caplog.set_level(logging.INFO)
    SwapLog().write(swap(age_s=30), now=0)

    assert [record.message for record in caplog.records] == [
        "swapped model=new client='ann' waited_s=15.0 predicted_s=9.0 took_s=8.0"
        " evicted='old after 30.0 s and 7 requests: unused for 3.0 s'"
    ]


def test_thrash_is_warned_of_once_a_minute(caplog: pytest.LogCaptureFixture) -> None:
    """What happened meanwhile is counted."""
    swap_log = SwapLog()
    for now in (0, 1, 2, BETWEEN_WARNINGS_S):
        swap_log.write(swap(age_s=3), now)
    warnings = [record.message for record in caplog.records if record.levelno == logging.WARNING]

    assert [text.partition("evictions=")[2] for text in warnings] == ["1 model=new", "3 model=new"]
