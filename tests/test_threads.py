"""Threads: their signals, and calls in them that do not return."""

from __future__ import annotations

import asyncio
import subprocess
import sys
import threading
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from tests.support.waiting import eventually

import hotseat
from hotseat import threads
from hotseat.tasks import Tasks
from hotseat.threads import in_thread, start_thread, within

if TYPE_CHECKING:
    from collections.abc import Iterator

SOURCE = Path(hotseat.__file__).parent

HELD = """
import os, signal, threading
from hotseat.handover.stand_in import hold_signals
from hotseat.threads import start_thread

may_end = threading.Event()
thread = start_thread("waiting", may_end.wait)
hold_signals()
os.kill(os.getpid(), signal.SIGTERM)
print(signal.SIGTERM in signal.sigpending(), thread.daemon, thread.name)
may_end.set()
"""


def test_a_signal_that_the_main_thread_holds_while_another_thread_runs() -> None:
    """It stays pending for whoever passes it on, and does not end the process."""
    ended = subprocess.run([sys.executable, "-c", HELD], capture_output=True, text=True, timeout=60)

    assert ended.stdout == "True True waiting\n"
    assert ended.returncode == 0


WORKERS = {
    "activity/record_file.py": "a database of hotseat's own, which would lose its records otherwise",
    "activity/store.py": "the same database",
    "activity/usage_store.py": "the same database",
    "api/routes/config.py": "computes",
    "api/routes/usage.py": "computes",
    "app.py": "imports",
    "handover/successor.py": "its own child, which is killed if it does not end",
    "memory/precedence.py": "reads /proc",
    "model_servers/conversations/files.py": "hotseat's own folder",
    "model_servers/conversations/folder.py": "hotseat's own folder",
    "model_servers/conversations/manager.py": "hotseat's own folder",
    "model_servers/conversations/saves_in_progress.py": "hotseat's own folder",
    "model_servers/guard_end.py": "reads /proc",
    "model_servers/launch.py": "reads /proc",
    "startup/created_keys.py": "hotseat's own file",
    "state/fleet_state.py": "hotseat's own file",
    "telemetry/metrics_page.py": "computes",
    "telemetry/upstream_page.py": "computes",
    "tracing/tracer.py": "computes",
}
"""What uses the few threads that all share: nothing that can wait for a model file or a client."""


def test_what_uses_the_shared_threads() -> None:
    """Whoever reads files that an operator names uses `in_thread`: six reads that hang would stop everything else."""
    calls = ("asyncio.to_thread(", "run_in_executor(")
    found = {
        str(path.relative_to(SOURCE))
        for path in SOURCE.rglob("*.py")
        if any(call in path.read_text() for call in calls)
    }

    assert found - {*WORKERS} == set(), "use `in_thread`, or say why this cannot hang"
    assert {*WORKERS} - found == set(), "these are gone"


@pytest.fixture
def stuck() -> Iterator[threading.Event]:
    """Lets the calls return that wait for it. Nothing waits for calls at first."""
    threads._idle.clear()
    event = threading.Event()
    yield event
    event.set()
    eventually(lambda: not threads._hanging)


def test_a_call_that_does_not_return(stuck: threading.Event) -> None:
    """Who asks again at its place gets no answer and starts no thread; other places answer; later its place does."""
    first = within(0.01, "a", "disk", stuck.wait)
    running = threading.active_count() + 1  # that of the other place
    again, other = within(60, "b", "disk", lambda: "late"), within(60, "c", "memory", lambda: "answer")
    assert (first, again, other) == (None, None, "answer")
    assert threading.active_count() == running
    stuck.set()

    assert eventually(lambda: within(60, "b", "disk", lambda: "late")) == "late"


def test_many_places_that_do_not_answer(stuck: threading.Event) -> None:
    """Only so many threads hang."""
    before = threading.active_count()
    for place in range(3 * threads.MOST_HANGING):
        within(0.001, "a", place, stuck.wait)

    assert threading.active_count() - before == threads.MOST_HANGING


def test_thousands_of_calls_that_return(monkeypatch: pytest.MonkeyPatch) -> None:
    """They share a few threads: a thread for each of 10,000 models would take seconds of a processor."""
    started = []

    def start(name: str, *job: Any) -> None:
        started.append(start_thread(name, *job))

    monkeypatch.setattr(threads, "start_thread", start)

    assert [within(60, "a", "disk", partial(int, number)) for number in range(2_000)] == [*range(2_000)]
    assert len(started) < 20


def test_an_error_of_a_call() -> None:
    """It is the caller's, and a TimeoutError too."""
    for error in (ValueError, TimeoutError):
        with pytest.raises(error):
            within(60, "a", "disk", partial(raising, error))


def raising(error: type[Exception]) -> None:
    raise error


async def test_more_threads_than_the_executor_has(stuck: threading.Event) -> None:
    """Calls that hang delay no other; the last one can be given up."""
    hanging = [Tasks().start(in_thread("hangs", stuck.wait), "hangs") for _ in range(50)]
    answer = await asyncio.wait_for(in_thread("answers", lambda: "answer"), 60)
    hanging[0].cancel()
    await asyncio.wait(hanging[:1])
    stuck.set()
    others = await asyncio.gather(*hanging[1:])

    assert (answer, others, hanging[0].cancelled()) == ("answer", [True] * 49, True)
