"""Log lines and their times."""

from __future__ import annotations

import io
import json
import logging
import os
import pty
import sys
from datetime import UTC, datetime, timedelta, timezone
from typing import TYPE_CHECKING

import pytest

from hotseat.identifiers import ModelName
from hotseat.settings import LogFormat, Logging
from hotseat.telemetry.logs import TIME_FORMATS, is_text, server_line, set_up, stamped

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path
    from typing import Any

QWEN = ModelName("qwen")
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
    """RFC 3339 writes UTC as Z."""
    assert stamped(SUMMER.astimezone(UTC), "rfc3339") == "2026-07-04T13:04:05Z"


def test_a_line_is_level_and_sentence(capsys: pytest.CaptureFixture[str]) -> None:
    """No time by default, and never colours."""
    set_up(Logging(level="info", form=LogFormat.TEXT))
    logging.getLogger("hotseat.test").info("model server ready model=%s", "qwen")
    logging.getLogger("hotseat.test").debug("not shown")

    assert capsys.readouterr().out == "INFO model server ready model=qwen\n"


def test_a_line_may_begin_with_its_time(capsys: pytest.CaptureFixture[str]) -> None:
    """The time in the configured format comes first."""
    set_up(Logging(time_format="rfc3339", form=LogFormat.TEXT))
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


# JSON


def in_json(capsys: pytest.CaptureFixture[str], sentence: str, *values: object, level: int = logging.INFO) -> Any:
    """The members of a line, without its time and its logger."""
    set_up(Logging(form=LogFormat.JSON))
    logging.getLogger("hotseat.test").log(level, sentence, *values)
    entry = json.loads(capsys.readouterr().out)
    assert datetime.fromisoformat(entry.pop("time")).utcoffset() == timedelta(0)
    assert entry.pop("logger") == "hotseat.test"
    return entry


@pytest.mark.parametrize(
    ("sentence", "values", "members"),
    [
        ("look here", (), {"message": "look here"}),
        (
            "model server ready model=%s took_s=%.2f pid=%s",
            ("qwen", 1.23456789, 7),
            {"message": "model server ready", "model": "qwen", "took_s": 1.234568, "pid": 7},
        ),
        ("stopped reason=%r status=%s", ("a 'b'", None), {"message": "stopped", "reason": "a 'b'", "status": None}),
        ("hotseat %s serves %d models", ("1.0", 2), {"message": "hotseat 1.0 serves 2 models"}),
        ("%d %% of it model=%s", (3, "qwen"), {"message": "3 % of it", "model": "qwen"}),
        ("limits limit_s=%g", (float("inf"),), {"message": "limits", "limit_s": "inf"}),
        ("odd error=%r", ("\udc80\n",), {"message": "odd", "error": "?\n"}),
        ("by name %(who)s", ({"who": "qwen"},), {"message": "by name qwen"}),
    ],
)
def test_a_line_of_json_has_the_values_by_their_names(
    capsys: pytest.CaptureFixture[str], sentence: str, values: tuple[object, ...], members: dict[str, object]
) -> None:
    """The constant sentence is the message, so that lines can be counted by it."""
    assert in_json(capsys, sentence, *values) == {"level": "info", **members}


def test_a_line_of_json_has_the_trace(capsys: pytest.CaptureFixture[str]) -> None:
    """The traceback is on the same line, however long it is."""
    set_up(Logging(form=LogFormat.JSON))
    try:
        raise ValueError("told you")
    except ValueError:
        logging.getLogger("hotseat.test").exception("background task failed task=%s", "sweep")
    [line] = capsys.readouterr().out.splitlines()

    assert json.loads(line)["trace"].endswith("ValueError: told you")


def test_lines_of_model_servers_become_json_too() -> None:
    """They are lines of the same log, with the name of their model."""
    assert json.loads(server_line(QWEN, "hello", 1.0)) == {
        "time": "1970-01-01T00:00:01.000Z",
        "level": "info",
        "logger": "upstream",
        "message": "hello",
        "model": "qwen",
    }


def test_a_terminal_gets_text_and_a_pipe_gets_json(monkeypatch: pytest.MonkeyPatch) -> None:
    """The configuration can override this."""
    ours, terminal = (os.fdopen(fd, "w") for fd in pty.openpty())
    read_end, write_end = os.pipe()
    with ours, terminal, open(read_end), open(write_end, "w") as pipe:
        monkeypatch.setattr(sys, "stdout", terminal)
        on_terminal = is_text(Logging())
        monkeypatch.setattr(sys, "stdout", pipe)
        in_pipe = is_text(Logging())

        assert (on_terminal, in_pipe) == (True, False)
        assert is_text(Logging(form=LogFormat.TEXT))


def test_the_journal_gets_text(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """People read it with journalctl, which shows each line as it was written."""
    with (tmp_path / "journal").open("w") as journal:
        status = os.fstat(journal.fileno())
        monkeypatch.setenv("JOURNAL_STREAM", f"{status.st_dev}:{status.st_ino}")
        monkeypatch.setattr(sys, "stdout", journal)
        in_journal = is_text(Logging())
        monkeypatch.setattr(sys, "stdout", io.StringIO())

        assert in_journal
        assert not is_text(Logging())
