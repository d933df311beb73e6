"""Log lines and their times."""

from __future__ import annotations

import logging
from datetime import UTC, datetime, timedelta, timezone
from typing import TYPE_CHECKING

import pytest

from hotseat.settings import Logging
from hotseat.telemetry.logs import TIME_FORMATS, set_up, stamped

if TYPE_CHECKING:
    from collections.abc import Iterator

SUMMER = datetime(2026, 7, 4, 15, 4, 5, 123456, tzinfo=timezone(timedelta(hours=2), "CEST"))


@pytest.fixture(autouse=True)
def _untouched_root() -> Iterator[None]:
    root = logging.getLogger()
    handlers, level = root.handlers[:], root.level
    yield
    root.handlers[:] = handlers
    root.setLevel(level)


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("ansic", "Sat Jul  4 15:04:05 2026"),
        ("unixdate", "Sat Jul  4 15:04:05 CEST 2026"),
        ("rubydate", "Sat Jul 04 15:04:05 +0200 2026"),
        ("rfc822", "04 Jul 26 15:04 CEST"),
        ("rfc822z", "04 Jul 26 15:04 +0200"),
        ("rfc850", "Saturday, 04-Jul-26 15:04:05 CEST"),
        ("rfc1123", "Sat, 04 Jul 2026 15:04:05 CEST"),
        ("rfc1123z", "Sat, 04 Jul 2026 15:04:05 +0200"),
        ("rfc3339", "2026-07-04T15:04:05+02:00"),
        ("rfc3339nano", "2026-07-04T15:04:05.123456000+02:00"),
        ("kitchen", "3:04PM"),
        ("stamp", "Jul  4 15:04:05"),
        ("stampmilli", "Jul  4 15:04:05.123"),
        ("stampmicro", "Jul  4 15:04:05.123456"),
        ("stampnano", "Jul  4 15:04:05.123456000"),
        ("", ""),
    ],
)
def test_times_look_as_their_go_names_say(name: str, text: str) -> None:
    """Each of the fifteen names gives Go's layout."""
    assert stamped(SUMMER, name) == text


def test_all_fifteen_names_are_known() -> None:
    """No name of llama-swap's list is missing."""
    assert len(TIME_FORMATS) == 15


def test_utc_is_z() -> None:
    """RFC 3339 writes Greenwich as Z."""
    assert stamped(SUMMER.astimezone(UTC), "rfc3339") == "2026-07-04T13:04:05Z"


def test_a_line_is_level_and_sentence(capsys: pytest.CaptureFixture[str]) -> None:
    """No time unless one is wished, no colour ever."""
    set_up(Logging(level="info"))
    logging.getLogger("hotseat.test").info("upstream ready model=%s", "qwen")
    logging.getLogger("hotseat.test").debug("not shown")

    assert capsys.readouterr().out == "INFO upstream ready model=qwen\n"


def test_a_line_may_begin_with_its_time(capsys: pytest.CaptureFixture[str]) -> None:
    """The wished format stands in front."""
    set_up(Logging(time_format="rfc3339"))
    logging.getLogger("hotseat.test").warning("look here")

    stamp, _, rest = capsys.readouterr().out.partition(" ")
    assert datetime.fromisoformat(stamp).tzinfo
    assert rest == "WARNING look here\n"


@pytest.mark.parametrize("to_stdout", ["upstream", "none"])
def test_our_own_lines_can_be_silenced(capsys: pytest.CaptureFixture[str], to_stdout: str) -> None:
    """logToStdout decides whose lines are printed, and a second call replaces the first."""
    set_up(Logging(to_stdout="both"))
    set_up(Logging(to_stdout=to_stdout))
    logging.getLogger("hotseat.test").error("unheard")

    assert capsys.readouterr() == ("", "")
