"""Servers that fail to start, or die: what clients receive, and when a new start is tried."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tests.support.catalogs import model, one_at_a_time
from tests.support.playbook import (
    arrives,
    clock,
    confirms,
    cuts,
    exited,
    failed,
    grants,
    leaves,
    load,
    nothing,
    ready,
    refuses,
    starts,
    stops,
    unload,
    unresponsive,
    wakes_at,
)

from hotseat.errors import LoadFailed
from hotseat.scheduling.commands import Cause
from hotseat.scheduling.lifecycle import Phase
from hotseat.scheduling.transitions import backoff_s

if TYPE_CHECKING:
    from tests.support.playbook import Playbook, Stage


def test_a_failed_start_refuses_all_who_waited_with_the_reason(yard: Playbook) -> None:
    """Every waiting request gets the reason, and no Retry-After."""
    yard >> arrives(1, "qwen") << starts("qwen")
    yard >> arrives(2, "qwen") << nothing

    yard >> failed("qwen") << refuses(1, LoadFailed) << refuses(2, LoadFailed)
    assert yard.error.message == "qwen exited with code 1"
    assert yard.error.retry_after is None


def test_after_a_failed_start_the_next_request_tries_again_at_once(yard: Playbook) -> None:
    """After a repair, or mere bad luck, no request needs to wait."""
    yard >> arrives(1, "qwen") << starts("qwen")
    yard >> failed("qwen") << refuses(1)
    assert yard.phase("qwen") is Phase.COLD

    yard >> arrives(2, "qwen") << starts("qwen")


def test_from_the_second_failure_on_a_model_rests(yard: Playbook) -> None:
    """An SDK that asks again and again does not evict a working model each time: it gets the cause, and when."""
    yard.with_backoff("qwen")

    yard.after(0.25) >> arrives(1, "qwen") << refuses(1, LoadFailed)
    assert yard.error.retry_after == 1.75
    assert yard.error.message == (
        "qwen is not ready: it failed 2 times in a row and is backing off, next try in 2 s"
        " (`hotseat load qwen` tries now). Last failure: qwen exited with code 1"
    )


def test_a_rest_ends(yard: Playbook) -> None:
    """When the backoff ends the next request starts the model again; if that fails too, the backoff is longer."""
    yard.with_backoff("qwen")
    yard.after(2) >> clock << nothing
    assert yard.phase("qwen") is Phase.COLD

    yard >> arrives(1, "qwen") << starts("qwen")
    yard >> failed("qwen") << refuses(1) << wakes_at(yard.now + 4)


def test_rests_grow() -> None:
    """The wait doubles from two seconds to a minute, from the second failure in a row on."""
    assert [backoff_s(failures) for failures in range(9)] == [0, 0, 2, 4, 8, 16, 32, 60, 60]


def test_a_server_that_dies_before_it_has_answered_anybody_counts_like_a_failed_start(yard: Playbook) -> None:
    """Becoming ready is not enough: many die of their first request."""
    for ticket in (1, 2):
        yard >> arrives(ticket, "qwen") << starts("qwen")
        yard >> ready("qwen") << grants(ticket)
        yard >> leaves(ticket, is_answered=False) << nothing
        yard >> exited("qwen")
        yard << (nothing if ticket == 1 else wakes_at(yard.now + 2))

    assert yard.view("qwen").failures == 2


def test_a_server_that_dies_after_an_answer_starts_again_time_after_time(yard: Playbook) -> None:
    """It works: it was killed, or a rare request crashes it."""
    for ticket in (1, 2, 3, 4):
        yard >> arrives(ticket, "qwen") << starts("qwen")
        yard >> ready("qwen") << grants(ticket)
        yard >> leaves(ticket) << nothing
        yard >> exited("qwen") << nothing

        assert (yard.phase("qwen"), yard.view("qwen").failures) == (Phase.COLD, 0)


def test_one_answer_clears_the_record(yard: Playbook) -> None:
    """The next failure is the first again."""
    yard.with_backoff("qwen")
    yard.after(2) >> clock << nothing
    yard >> arrives(1, "qwen") << starts("qwen")
    yard >> ready("qwen") << grants(1)
    yard >> arrives(2, "qwen") << grants(2)
    assert yard.view("qwen").failures == 2
    yard >> leaves(1) << nothing

    assert yard.view("qwen").failures == 0


def test_what_a_server_wrote_is_not_shown_to_clients(yard: Playbook) -> None:
    """There may be prompts of others in it; operators find it in the view."""
    for ticket in (1, 2):
        yard >> arrives(ticket, "qwen") << starts("qwen")
        yard >> ready("qwen") << grants(ticket)
        yard >> exited("qwen", output=("slot 0: secret prompt",))
        yard << (nothing if ticket == 1 else wakes_at(yard.now + 2))
    yard >> arrives(3, "qwen") << refuses(3, LoadFailed)

    assert "secret" not in yard.error.message
    assert "secret" not in yard.view("qwen").why
    assert yard.view("qwen").last_error.endswith("its last output was:\nslot 0: secret prompt")


def test_an_explicit_load_forgives(yard: Playbook) -> None:
    """An operator who fixed something need not wait for the backoff to end."""
    yard.with_backoff("qwen")

    yard >> load(1, "qwen") << starts("qwen")
    assert yard.view("qwen").failures == 0


def test_others_pass_when_it_fails(yard: Playbook) -> None:
    """The memory of a model that failed goes to the next waiting one."""
    yard >> arrives(1, "qwen") << starts("qwen")
    yard >> arrives(2, "llama") << nothing

    yard >> failed("qwen") << refuses(1) << starts("llama")


def test_a_crash_in_use(yard: Playbook) -> None:
    """A dead server's leases are void; giving them back later changes nothing."""
    yard.with_ready("qwen", 1)
    yard >> exited("qwen") << nothing
    assert yard.view("qwen").in_flight == 0
    yard >> leaves(1) << nothing

    yard >> arrives(2, "qwen") << starts("qwen")


def test_a_lease_from_before_the_crash_does_not_count_for_the_successor(yard: Playbook) -> None:
    """An orphaned lease is given back while the next process runs, and frees nothing there."""
    yard.with_ready("qwen", 1)
    yard >> exited("qwen") << nothing
    yard >> arrives(2, "qwen") << starts("qwen")
    yard >> ready("qwen") << grants(2)
    yard >> leaves(1) << nothing

    assert yard.view("qwen").in_flight == 1


def test_a_crash_is_described_in_words(yard: Playbook) -> None:
    """The view of the model says afterwards what happened."""
    yard.with_ready("qwen", 1)
    yard >> exited("qwen") << nothing

    assert yard.view("qwen").last_error == "qwen was killed by SIGKILL"
    assert yard.view("qwen").failures == 1


def test_those_who_waited_for_a_slot_when_it_crashed(stage: Stage) -> None:
    """The first crash is repaired at once: requests that had not been forwarded do not notice."""
    yard = stage(one_at_a_time(model("qwen", concurrency_limit=1)))
    yard.with_ready("qwen", 1)
    yard >> arrives(2, "qwen") << nothing

    yard >> exited("qwen") << starts("qwen")
    yard >> ready("qwen") << grants(2)


def test_the_second_crash_in_a_row_refuses_those_who_wait(stage: Stage) -> None:
    """A server that keeps dying backs off, and no request waits for it meanwhile."""
    yard = stage(one_at_a_time(model("qwen", concurrency_limit=1)))
    yard.with_ready("qwen", 1)
    yard >> exited("qwen") << nothing
    yard >> arrives(2, "qwen") << starts("qwen")
    yard >> ready("qwen") << grants(2)
    yard >> arrives(3, "qwen") << nothing

    yard >> exited("qwen") << refuses(3, LoadFailed) << wakes_at(12)


def test_a_crash_while_draining(yard: Playbook) -> None:
    """A victim that dies before it was drained frees its memory all the same."""
    yard.with_ready("qwen", 1)
    yard >> arrives(2, "llama") << wakes_at(50)
    yard.at(50) >> clock << nothing

    yard >> exited("qwen") << starts("llama")
    yard >> leaves(1) << nothing


def test_a_crash_while_being_stopped_is_an_exit(yard: Playbook) -> None:
    """However a server ends after it was told to stop, that is the exit as asked."""
    yard.with_ready("qwen")
    yard >> unload(1, "qwen") << stops("qwen")
    yard >> exited("qwen") << confirms(1)

    assert yard.view("qwen").failures == 0


def test_an_unresponsive_server_is_stopped_and_started_for_the_next(yard: Playbook) -> None:
    """Its requests are cut with the reason; when its process is gone its memory is free, and it starts again."""
    yard.with_ready("qwen")
    yard >> arrives(1, "qwen") << grants(1)
    yard >> unresponsive("qwen") << cuts(1)
    yard >> leaves(1) << stops("qwen", cause=Cause.UNRESPONSIVE)
    yard >> arrives(2, "qwen") << nothing

    yard >> exited("qwen") << starts("qwen")
    yard >> ready("qwen") << grants(2)


def test_an_unresponsive_server_that_drains_holds_nobody_up(yard: Playbook) -> None:
    """A swap waits for requests in flight, but not for a server that will never answer them."""
    yard.with_ready("qwen")
    yard >> arrives(1, "qwen") << grants(1)
    yard >> unload(9, "qwen") << wakes_at(yard.now + 10)
    yard >> unresponsive("qwen") << cuts(1)

    yard >> leaves(1) << stops("qwen")


def test_the_silence_of_an_earlier_launch_is_nothing_to_the_present_one(yard: Playbook) -> None:
    """A fact that comes late is about another process."""
    yard.with_ready("qwen")
    yard >> arrives(1, "qwen") << grants(1)

    yard >> unresponsive("qwen", launch=99) << nothing
