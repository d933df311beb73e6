"""What is done with every application; each step passes, or raises ClientFailure with what went wrong."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol

from clients.applications.scripted_model import says
from clients.applications.workspace import WORD
from clients.situations import ClientFailure, expect
from tests.support.waiting import eventually

if TYPE_CHECKING:
    from collections.abc import Callable

    from clients.applications.workspace import Shown, Workspace

    Step = Callable[[Any], None]
    """With a session of an application."""


class Session(Protocol):
    """An application that is set up for its user."""

    def ask(self, model: str, question: str) -> Shown: ...

    def use_tool(self, model: str) -> str:
        """Let the model use a tool of the application, and return what came of it."""
        ...


def first_answer(session: Session) -> None:
    """The application shows the answer of the model that it was told to use."""
    shown = session.ask("gemma", "[[say hello]]")
    expect(says("gemma") in shown.answer, f"showed {shown.everything!r}")


def tool_call(session: Session) -> None:
    """After a swap to another model, the application does what the model asks for and returns the result to it."""
    result = session.use_tool("qwen")
    expect(WORD in result, f"ended with {result!r}")


def unknown_model(session: Session) -> None:
    """The user sees hotseat's error with the nearest name."""
    shown = " ".join(session.ask("qwenn", "[[say hello]]").everything.split())
    expect("is not defined in the configuration. Did you mean" in shown, f"showed {shown!r}")


class Manager(Session, Protocol):
    """An application that shows which models are loaded."""

    @property
    def workspace(self) -> Workspace: ...

    def loaded(self) -> list[str]:
        """Those that it shows as loaded."""
        ...

    def unload(self, model: str) -> None: ...


class Loader(Manager, Protocol):
    def load(self, model: str) -> None: ...


def unload(session: Manager) -> None:
    """The application shows which model is loaded, and unloads it when its user says so."""
    session.ask("gemma", "[[say hello]]")
    expect_loaded(session, ["gemma"])
    session.unload("gemma")
    expect_loaded(session, [])


def load(session: Loader) -> None:
    """The application loads a model without a question, and then shows it as loaded."""
    session.load("qwen")
    expect_loaded(session, ["qwen"])


def expect_loaded(session: Manager, models: list[str]) -> None:
    """In the application and in hotseat."""
    try:
        eventually(lambda: session.loaded() == models == session.workspace.running())
    except AssertionError:
        shown, running = session.loaded(), session.workspace.running()
        raise ClientFailure(f"shows {shown} as loaded while {running} run; expected {models}") from None


STEPS: tuple[Step, ...] = (first_answer, tool_call, unknown_model)
"""For every application."""
MANAGEMENT: tuple[Step, ...] = (unload, load)
"""For those that manage models."""
