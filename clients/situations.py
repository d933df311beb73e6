"""The situations that every client is tested in; each passes, or raises ClientFailure with what went wrong."""

from __future__ import annotations

from typing import TYPE_CHECKING

from clients.rig import SPEED, whole_answer
from tests.support.waiting import eventually

if TYPE_CHECKING:
    from collections.abc import Callable

    from clients.caller import Caller, Outcome
    from clients.rig import Rig

ONE_MINUTE_S = 60 / SPEED


class ClientFailure(AssertionError):
    """The client did not do what its user needs."""


def plain_answer(rig: Rig, caller: Caller) -> None:
    """A request without streaming gets the complete response."""
    expect_whole(caller.ask("good"), "good")


def streamed_answer(rig: Rig, caller: Caller) -> None:
    """A streamed response has the same text and arrives in more than one piece."""
    outcome = caller.stream("good")

    expect_whole(outcome, "good")
    expect(outcome.pieces > 1, f"gave the stream in {outcome.pieces} piece")


def slow_load(rig: Rig, caller: Caller) -> None:
    """The client waits for a model that loads for 3 s with its own time limits and sends one request."""
    expect_whole(caller.ask("slow-to-load"), "slow-to-load")
    expect_asked_once(rig, "slow-to-load")


def two_minutes_of_silence(rig: Rig, caller: Caller) -> None:
    """The client waits for a stream whose model loads for two minutes with its own limit and sends one request."""
    limit_s = caller.limit_s and caller.limit_s / SPEED
    expect_whole(caller.stream("two-minutes", limit_s), "two-minutes")
    expect_asked_once(rig, "two-minutes")


def two_minutes_of_comments(rig: Rig, caller: Caller) -> None:
    """The same with a limit of one minute, which silence would exceed, and `sendLoadingState: comments`."""
    in_silence = caller.stream("two-minutes-and-timeout", ONE_MINUTE_S)
    gave_up = in_silence.error is not None or rig.answers("two-minutes-and-timeout", "4xx") > 0
    expect(gave_up, "waited in silence for longer than it was told to")
    expect_whole(caller.stream("two-minutes-and-comments", ONE_MINUTE_S), "two-minutes-and-comments")
    expect_asked_once(rig, "two-minutes-and-comments")


def unknown_model(rig: Rig, caller: Caller) -> None:
    """The user sees an error with the name that does not exist and the nearest name."""
    outcome = caller.ask("goood")

    expect_error(outcome, "goood")
    expect_error(outcome, "Did you mean")


def failed_start(rig: Rig, caller: Caller) -> None:
    """The user sees why the model did not start, and the client does not retry in vain."""
    expect_error(caller.ask("broken"), "told to exit on start")
    starts = len(rig.noted("broken", "started"))
    expect(starts == 1, f"had the model started {starts} times")
    expect_asked_once(rig, "broken")


def death_mid_stream(rig: Rig, caller: Caller) -> None:
    """If the model dies during its response, the user sees an error with the reason, never a short response."""
    outcome = caller.stream("dies-mid-stream")

    expect(outcome.error is not None, f"took {outcome.text!r} for the whole answer")
    expect_error(outcome, "in the middle of its response")
    expect_asked_once(rig, "dies-mid-stream")


def full_queue(rig: Rig, caller: Caller) -> None:
    """A client that is refused because the queue is full retries after `Retry-After` and gets its response."""
    with rig.crowd():
        caller.begin("ask", "narrow")
        eventually(lambda: rig.answers("narrow", "4xx"))

    expect_whole(caller.outcome(), "narrow")


def cancel(rig: Rig, caller: Caller) -> None:
    """The client closes its stream after three pieces, and the model server notices long before its last word."""
    outcome = caller.leave("leisurely")
    expect(outcome.error is None, f"failed with {outcome.error}")
    expect(outcome.left_at is not None, "did not leave")

    ended = eventually(lambda: rig.noted("leisurely", "client_gone") or rig.noted("leisurely", "request_finished"))
    expect(ended[0]["event"] == "client_gone", "kept the stream open after closing it")


SITUATIONS: tuple[Callable[[Rig, Caller], None], ...] = (
    plain_answer,
    streamed_answer,
    slow_load,
    two_minutes_of_silence,
    two_minutes_of_comments,
    unknown_model,
    failed_start,
    death_mid_stream,
    full_queue,
    cancel,
)


def expect(fact: bool, otherwise: str) -> None:
    if not fact:
        raise ClientFailure(otherwise)


def expect_whole(outcome: Outcome, model: str) -> None:
    expect(outcome.error is None, f"failed with {outcome.error}")
    expect(outcome.text == whole_answer(model), f"gave {outcome.text!r} instead of {whole_answer(model)!r}")


def expect_error(outcome: Outcome, reason: str) -> None:
    expect(outcome.error is not None, f"reported success: {outcome.text!r}")
    expect(reason in (outcome.error or ""), f"hid the reason: {outcome.error}")


def expect_asked_once(rig: Rig, model: str) -> None:
    # hotseat counts an answer when it has ended: a moment after the client has it.
    asked = eventually(lambda: rig.answers(model))
    expect(asked == 1, f"asked {asked} times")
