"""What is done with every application; each step passes, or raises ClientFailure with what went wrong."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from clients.applications.scripted_model import says
from clients.applications.workspace import WORD
from clients.situations import expect

if TYPE_CHECKING:
    from collections.abc import Callable

    from clients.applications.workspace import Shown


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


STEPS: tuple[Callable[[Session], None], ...] = (first_answer, tool_call, unknown_model)
