"""Programs that hotseat yields to."""

from __future__ import annotations

import os
import subprocess
from typing import TYPE_CHECKING

from tests.support.machines import add_process, write
from tests.support.waiting import eventually

from hotseat.hardware.other_programs import OtherProgram, matching, present

if TYPE_CHECKING:
    from pathlib import Path


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
