"""The program in a terminal, with keys and redrawing, before the real llama-server."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from tests.support.llama import llama
from tests.support.terminal import CTRL_C, Terminal
from tests.support.waiting import eventually

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.support.hotseat import Hotseat

pytestmark = pytest.mark.llama


def test_ctrl_c_stops_an_answer_and_not_the_conversation(rig: Hotseat) -> None:
    """The answer is cut short on the server too, and the next question is answered."""
    with Terminal("run", "alpha", "--url", rig.url) as terminal:
        terminal.wait_for("alpha is ready")
        terminal.wait_for(">>> ")
        terminal.type("tell me everything\r")
        terminal.wait_for("everything\r\n")
        terminal.wait_for(" ")  # it has begun to speak
        terminal.type(CTRL_C)
        terminal.type("\r")  # the kernel throws away what is shown as Ctrl-C is typed, perhaps the very prompt
        terminal.wait_for(">>> ")
        in_flight = rig.call("GET", "/hotseat/models/alpha")
        eventually(lambda: rig.call("GET", "/hotseat/models/alpha").json()["in_flight"] == 0)
        terminal.type("/bye\r")
        code = terminal.exit_code()

    assert in_flight.status == 200
    assert code == 0


def test_load_shows_a_bar(rig: Hotseat) -> None:
    """On a terminal; what is left of it at the end is one sentence."""
    with Terminal("load", "beta", "--url", rig.url) as terminal:
        shown = terminal.wait_for("beta is ready")
        code = terminal.exit_code()

    assert "beta" in shown
    assert "━" in shown
    assert code == 0


def test_top_shows_what_happens_until_q(rig: Hotseat) -> None:
    """A model that is loaded meanwhile appears without a key."""
    with Terminal("top", "--url", rig.url) as terminal:
        terminal.wait_for("0 of 3 models running")
        rig.load("alpha")
        terminal.wait_for("ready")
        terminal.type("q")
        code = terminal.exit_code()

    assert code == 0


def test_run_in_a_pipe_prints_the_answer_and_nothing_else(serve: Callable[..., Hotseat]) -> None:
    """No colour, no bar, no prompt; the words of the tiny model have four letters."""
    printed = serve({"alpha": llama("alpha", "-n 16")}).cli("run", "alpha", "hello")

    assert printed.returncode == 0
    assert printed.stderr == ""
    assert all(word.isalpha() and len(word) == 4 for word in printed.stdout.split())
    assert printed.stdout.split()
