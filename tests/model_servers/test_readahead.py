"""Files are read into the page cache ahead: all of them, unless memory is short or reading is stopped."""

from __future__ import annotations

import asyncio
import os
import threading
from pathlib import Path
from tempfile import NamedTemporaryFile
from typing import TYPE_CHECKING

import pytest
from bench.swap.cache import make_cold, resident_share
from tests.support.llama import REPOSITORY
from tests.support.supervisor_rig import GUARD_INTERPRETER, SupervisorRig, model
from tests.support.waiting import come_true

from hotseat.identifiers import ModelName
from hotseat.model_servers import readahead
from hotseat.model_servers.readahead import BLOCK, Pace, ReadingAhead
from hotseat.model_servers.supervisor import open_supervisor
from hotseat.scheduling.commands import ReadAhead
from hotseat.tasks import Tasks

if TYPE_CHECKING:
    from collections.abc import Iterator

SIZE = 5 * BLOCK + 12_345
PLENTY = 1 << 40


@pytest.fixture
def weights() -> Iterator[Path]:
    """A cold file on a disk: what lies in memory cannot be put out of the page cache."""
    with NamedTemporaryFile(dir=REPOSITORY / ".cache", suffix=".gguf") as file:
        path = Path(file.name)
        path.write_bytes(os.urandom(SIZE))
        make_cold(path)
        yield path


async def test_every_page_is_there_in_the_end(weights: Path) -> None:
    """As the kernel tells of each: not only the first of what was asked for."""
    reading = ReadingAhead(("server", "-m", str(weights)), lambda: PLENTY)
    await reading.run()

    assert (reading.done, resident_share(weights)) == (SIZE, 1.0)


async def test_reading_stops_before_it_takes_what_others_map(weights: Path) -> None:
    """What was read counts: it is memory that files have taken already."""
    reading = ReadingAhead(("server", "-m", str(weights)), lambda: 3 * BLOCK)
    await reading.run()

    assert reading.done == 2 * BLOCK
    assert resident_share(weights) < 1.0


async def test_what_was_stopped_is_not_read(weights: Path) -> None:
    """Not even where it had not begun."""
    reading = ReadingAhead(("server", "-m", str(weights)), lambda: PLENTY)
    reading.stop()
    await reading.run()

    assert reading.done == 0


async def test_files_that_cannot_be_read_are_left_to_the_server(weights: Path) -> None:
    """Its own words about them are better than ours."""

    def vanishes() -> int:
        raise OSError("the disk is gone")

    reading = ReadingAhead(("server", "-m", str(weights)), vanishes)
    await reading.run()

    assert reading.done == 0


async def test_without_such_a_call_nothing_is_read(weights: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """macOS has none."""
    monkeypatch.setattr(readahead, "IS_POSSIBLE", False)
    reading = ReadingAhead(("server", "-m", str(weights)), lambda: PLENTY)
    await reading.run()

    assert reading.done == 0


def test_who_worked_rests() -> None:
    """A thousandth of a core is used up at once, and a thousand cores never are."""
    modest, rich = Pace(0.001), Pace(1000.0)
    assert sum(range(200_000))

    assert modest.pause_s() > 0.5
    assert rich.pause_s() == 0.0


async def test_a_server_that_starts_reads_for_itself(weights: Path) -> None:
    """What is on its way then comes, and no more."""
    has_begun, server_runs = threading.Event(), threading.Event()

    def plenty_later() -> int:
        has_begun.set()
        server_runs.wait(60)
        return PLENTY

    async with open_supervisor(os.environ, interpreter=GUARD_INTERPRETER, available=plenty_later) as supervisor:
        rig, tasks, spec = SupervisorRig(supervisor), Tasks(), model("maps_half", str(weights))
        reading = tasks.start(supervisor.read_ahead(ReadAhead(spec.name, spec, "the test says so")), "read")
        await come_true(has_begun.is_set)
        [ahead] = supervisor._read_ahead.in_progress.values()
        start = rig.next_start(spec)
        starting = tasks.start(supervisor.start(start), "start")
        await rig.said("took in ")
        server_runs.set()
        await reading
        await rig.stop(start)
        await starting

    assert ahead.done == BLOCK


async def test_one_model_at_a_time_is_read_ahead(weights: Path) -> None:
    """The older claim first: two readers would share one disk, and count the same memory as spare."""
    both = threading.Barrier(2)
    meetings: list[int] = []

    def spare() -> int:
        try:
            meetings.append(both.wait(timeout=0.05))
        except threading.BrokenBarrierError:  # alone
            both.reset()
        return PLENTY

    async with open_supervisor(os.environ, interpreter=GUARD_INTERPRETER, available=spare) as supervisor:
        spec = model("maps_half", str(weights))
        commands = [ReadAhead(ModelName(name), spec, "the test says so") for name in ("qwen", "llama")]
        await asyncio.gather(*(supervisor.read_ahead(command) for command in commands))

    assert meetings == []
