"""Precedence: which programs are found, and what models do for them and for an operator."""

from __future__ import annotations

import os
import subprocess
from typing import TYPE_CHECKING

import pytest
from tests.support.catalogs import gpu, one_at_a_time
from tests.support.fake_launcher import FakeLauncher
from tests.support.machines import add_process, write
from tests.support.waiting import come_true, eventually

from hotseat.dispatch.dispatcher import Dispatcher
from hotseat.dispatch.journal import Journal
from hotseat.memory.precedence import OtherProgram, Precedence, matching, present
from hotseat.scheduling.events import YieldEnded, YieldRequested
from hotseat.scheduling.scheduler import Scheduler
from hotseat.tasks import Tasks

if TYPE_CHECKING:
    from collections.abc import Collection
    from pathlib import Path

    from hotseat.scheduling.events import Event

GAME = OtherProgram(4242, "game.exe")
RUNS = YieldRequested("game.exe is running (pid 4242)", for_program=True)


class PrecedenceRig:
    """The running programs, and the events that the scheduler received."""

    def __init__(self, *patterns: str) -> None:
        self.about: list[OtherProgram] = []
        self.events: list[Event] = []
        self.asked: list[tuple[tuple[str, ...], tuple[int, ...]]] = []
        self.scheduler = Scheduler(one_at_a_time("qwen"))
        journal = Journal()
        journal.listen(lambda entry: self.events.append(entry.event))
        dispatcher = Dispatcher(self.scheduler, FakeLauncher(), journal)
        self.precedence = Precedence(dispatcher, lambda: patterns, lambda: (7, 8), self._look, every_s=0.001)

    def _look(self, patterns: Collection[str], ours: Collection[int]) -> list[OtherProgram]:
        self.asked.append((tuple(patterns), tuple(ours)))
        return self.about


async def test_models_yield_memory_while_a_program_runs() -> None:
    """There is one event when the program starts and one when it has ended."""
    rig = PrecedenceRig("game*")
    await rig.precedence.look()
    rig.about = [GAME]
    await rig.precedence.look()
    await rig.precedence.look()
    rig.about = []
    await rig.precedence.look()

    assert rig.events == [RUNS, YieldEnded(for_program=True)]
    assert rig.asked[0] == (("game*",), (7, 8))


async def test_nobody_is_looked_for_where_nobody_is_named() -> None:
    """A search costs a pass over all processes."""
    rig = PrecedenceRig()
    await rig.precedence.look()

    assert (rig.asked, rig.events) == ([], [])


async def test_an_operator_asks_for_one_device() -> None:
    """It lasts until the operator withdraws it."""
    rig = PrecedenceRig()
    rig.precedence.yield_memory("training", frozenset({gpu(0)}))
    left = rig.precedence.resume()

    assert rig.events == [YieldRequested("training", frozenset({gpu(0)})), YieldEnded()]
    assert left == ""


async def test_an_operator_withdraws_a_yield_while_a_program_runs() -> None:
    """Models still yield, and the operator sees to which program."""
    rig = PrecedenceRig("game*")
    rig.precedence.yield_memory("training")
    rig.about = [GAME]
    await rig.precedence.look()
    left = rig.precedence.resume()

    assert left == "game.exe is running (pid 4242)"
    assert rig.scheduler.yields == {True: RUNS}


async def test_a_program_ends_while_an_operator_needs_memory() -> None:
    """The operator's yield goes on."""
    rig = PrecedenceRig("game*")
    rig.about = [GAME]
    await rig.precedence.look()
    rig.precedence.yield_memory("training")
    rig.about = []
    await rig.precedence.look()

    assert rig.scheduler.yields == {False: YieldRequested("training")}
    assert rig.precedence.resume() == ""
    assert rig.scheduler.yields == {}


@pytest.mark.parametrize("patterns", [("game*",), ()])
async def test_a_program_has_ended_during_a_restart(patterns: tuple[str, ...]) -> None:
    """The yield of the previous process is over, also if the configuration names no program any more."""
    rig = PrecedenceRig(*patterns)
    rig.scheduler.handle(RUNS, 0.0)
    await rig.precedence.look()

    assert rig.events == [YieldEnded(for_program=True)]


async def test_a_program_was_started_again_during_a_restart() -> None:
    """Its pid is another one now."""
    rig = PrecedenceRig("game*")
    rig.scheduler.handle(YieldRequested("game.exe is running (pid 7)", for_program=True), 0.0)
    rig.about = [GAME]
    await rig.precedence.look()
    await rig.precedence.look()

    assert rig.events == [RUNS]


async def test_programs_are_looked_for_again_and_again() -> None:
    """The search repeats while hotseat runs."""
    rig = PrecedenceRig("game*")
    tasks = Tasks()
    tasks.start(rig.precedence.walk(), "walk")
    await come_true(lambda: len(rig.asked) >= 3)
    await tasks.aclose()

    assert rig.events == []


def test_names_are_matched_whole_and_by_pattern() -> None:
    """`*` matches anything, case matters, and part of a name does not match."""
    running = [(7, "steam"), (5, "blender"), (6, "Steam"), (8, "steamwebhelper"), (9, "python3")]

    assert matching(["steam", "blend*"], running) == [OtherProgram(5, "blender"), OtherProgram(7, "steam")]
    assert matching([], running) == []


def test_a_name_that_the_kernel_cut_is_read_from_the_command(proc: Path) -> None:
    """The kernel keeps fifteen characters of a name; under Wine the path has backslashes."""
    add_process(proc, 40, name="Cyberpunk2077.e")
    write(proc / "40/cmdline", "Z:\\games\\bin\\Cyberpunk2077.exe\0--fullscreen\0")
    add_process(proc, 41, name="a-renamed-worke")
    write(proc / "41/cmdline", "/usr/bin/python3\0")

    assert present(["Cyberpunk2077.exe"], proc=proc) == [OtherProgram(40, "Cyberpunk2077.exe")]
    assert present(["a-renamed-worke"], proc=proc) == [OtherProgram(41, "a-renamed-worke")]


def test_models_do_not_yield_to_our_own_processes(proc: Path) -> None:
    """A model server may have a name that matches, and so may hotseat."""
    add_process(proc, os.getpid(), name="python3")
    add_process(proc, 40, name="python3")
    add_process(proc, 41, name="python3")

    assert present(["python*"], ours=[40], proc=proc) == [OtherProgram(41, "python3")]


def test_a_real_process_is_seen_while_it_runs(tmp_path: Path) -> None:
    """It is found while it runs, and not afterwards."""
    program = tmp_path / "a-game-of-long-name"
    program.symlink_to("/bin/sleep")
    game = subprocess.Popen([program, "60"])
    try:
        seen = eventually(lambda: present(["a-game-of-*name"]))
    finally:
        game.kill()
        game.wait()

    assert seen == [OtherProgram(game.pid, "a-game-of-long-name")]
    assert present(["a-game-of-*name"]) == []
    assert present([]) == []
