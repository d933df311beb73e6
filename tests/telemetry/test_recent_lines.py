"""The last lines of hotseat's own log, for readers of the API."""

from __future__ import annotations

import asyncio
import logging
import sys
import threading
import time
from typing import TYPE_CHECKING

import pytest
from tests.support.waiting import come_true

from hotseat.settings import LogFormat, Logging
from hotseat.telemetry.logs import set_up
from hotseat.telemetry.recent_lines import KEPT, MOST_TRACES, SKIPPED, Follower, RecentLines

if TYPE_CHECKING:
    from collections.abc import Iterator

log = logging.getLogger("hotseat.test")


@pytest.fixture(autouse=True)
def _untouched_root() -> Iterator[None]:
    root = logging.getLogger()
    handlers, level = root.handlers[:], root.level
    yield
    root.handlers[:] = handlers
    root.setLevel(level)


def in_use(level: str = "info", to_stdout: str = "none") -> RecentLines:
    recent = RecentLines()
    set_up(Logging(level=level, to_stdout=to_stdout, form=LogFormat.TEXT), recent=recent)
    return recent


def texts(recent: RecentLines) -> list[str]:
    return [line.text for line in recent.newest(10)][::-1]


@pytest.mark.parametrize("to_stdout", ["proxy", "upstream", "none"])
def test_a_line_has_its_time_and_level(to_stdout: str) -> None:
    """Whether or not it also goes to standard output."""
    recent = in_use(to_stdout=to_stdout)
    log.warning("model server failed to start model=%s", "qwen")
    [line] = recent.newest(10)

    assert (line.text, line.level, line.model) == ("model server failed to start model=qwen", "warning", None)
    assert abs(line.at - time.time()) < 60


def test_the_log_level_applies() -> None:
    """What is not logged is not kept either."""
    recent = in_use(level="warn")
    log.info("unimportant")
    log.error("important")

    assert texts(recent) == ["important"]


def test_the_kept_lines_survive_a_reload() -> None:
    """The handler is added again, not replaced."""
    recent = in_use()
    log.info("before")
    set_up(Logging(to_stdout="none"), recent=recent)
    log.info("after")

    assert texts(recent) == ["before", "after"]


def test_only_the_last_lines_are_kept() -> None:
    recent = in_use()
    for number in range(KEPT + 10):
        log.info("line %d", number)

    assert [len([*recent.newest(lines)]) for lines in (2 * KEPT, 2, 0)] == [KEPT, 2, 0]
    assert next(recent.newest(2)).text == f"line {KEPT + 9}"


def test_a_warning_is_kept_whatever_clients_cause() -> None:
    """Any number of lines of the level info, such as those of failed requests, push out no warning."""
    recent = in_use()
    log.info("an old line")
    log.warning("a warning")
    for number in range(KEPT):
        log.info("request failed number=%d", number)
    lines = [line.text for line in recent.newest(3 * KEPT)]

    assert lines[0] == f"request failed number={KEPT - 1}"
    assert lines[-2:] == ["request failed number=0", "a warning"]
    assert len(lines) == KEPT + 1


def test_a_warning_is_kept_whatever_a_bug_writes() -> None:
    """Of the stack traces from one function, a few of each minute are kept with the warnings."""
    recent = in_use()
    log.warning("a warning")
    for number in range(2 * KEPT):
        fail(at=60.0 * (number // KEPT))
    log.warning("another warning")
    kept = [line.text for line in recent._warnings]

    assert (kept[0], kept[-1]) == ("a warning", "another warning")
    assert kept.count("ValueError: told you") == 2 * MOST_TRACES
    assert sum(line.text == "ValueError: told you" for line in recent.newest(KEPT)) > 2 * MOST_TRACES


def fail(at: float) -> None:
    try:
        raise ValueError("told you")
    except ValueError:
        error = sys.exc_info()
    record = log.makeRecord(log.name, logging.ERROR, __file__, 1, "internal error", (), error)
    record.created = at
    log.handle(record)


def test_a_stack_trace_is_several_lines_of_one_time() -> None:
    recent = in_use()
    try:
        raise ValueError("told you")
    except ValueError:
        log.exception("background task failed task=%s", "sweep")
    lines = [*recent.newest(100)][::-1]

    assert lines[0].text == "background task failed task=sweep"
    assert lines[-1].text == "ValueError: told you"
    assert {(line.at, line.level) for line in lines} == {(lines[0].at, "error")}


def test_text_that_is_not_unicode_can_be_sent() -> None:
    """What a process wrote need not be UTF-8."""
    recent = in_use()
    log.info("odd error=%s", "\udc80")

    assert next(recent.newest(1)).text.encode() == b"odd error=?"


async def test_a_follower_gets_lines_of_every_thread() -> None:
    """In the order in which they were written, and none from before."""
    recent = in_use()
    log.info("before")
    lines = recent.follow()
    first = asyncio.get_running_loop().create_task(anext(lines))
    await come_true(lambda: recent._followers)
    log.info("one")
    await asyncio.to_thread(log.warning, "two")

    assert [(await first).text, (await anext(lines)).text] == ["one", "two"]
    await lines.aclose()
    assert recent._followers == []


async def test_a_follower_who_falls_behind_gets_a_skip_notice() -> None:
    recent = in_use()
    lines = recent.follow()
    first = asyncio.get_running_loop().create_task(anext(lines))
    await come_true(lambda: recent._followers)
    for number in range(KEPT + 10):
        log.info("line %d", number)

    assert (await first).text == SKIPPED
    assert (await anext(lines)).text == "line 11"
    await lines.aclose()


async def test_readers_and_threads_that_log_do_not_disturb_each_other() -> None:
    """Every line reaches the follower exactly once, in the order of each thread, while others read."""
    recent = in_use()
    lines = recent.follow()
    first = asyncio.get_running_loop().create_task(anext(lines))
    await come_true(lambda: recent._followers)
    threads = [threading.Thread(target=write_hundred, args=(name,)) for name in "abcd"]
    for thread in threads:
        thread.start()
    texts = [(await first).text]
    while len(texts) < 400:
        texts.append((await anext(lines)).text)
        assert [*recent.newest(100)]
    await lines.aclose()

    assert {name: [text for text in texts if text[0] == name] for name in "abcd"} == {
        name: [f"{name} {number}" for number in range(100)] for name in "abcd"
    }


def write_hundred(name: str) -> None:
    for number in range(100):
        log.info("%s %d", name, number)


def test_waking_a_follower_of_a_closed_loop_is_harmless() -> None:
    """The last lines of a shutdown are logged after its event loop has ended."""

    async def begun() -> Follower:
        return Follower()

    asyncio.run(begun()).wake()
