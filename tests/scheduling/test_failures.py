"""Servers that do not start, or die: who is told what, and when they are tried again."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
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
from hotseat.scheduling.lifecycle import Move, Phase
from hotseat.scheduling.moves import rest_s

if TYPE_CHECKING:
    from tests.support.playbook import Playbook, Stage


def fails_twice(yard: Playbook) -> Playbook:
    """qwen crashed twice in a row and rests for a second."""
    yard.with_ready("qwen")
    yard >> exited("qwen") << nothing
    yard >> arrives(902, "qwen") << starts("qwen")
    yard >> ready("qwen") << grants(902)
    yard >> exited("qwen") << wakes_at(yard.now + 1)
    yard >> leaves(902) << nothing
    return yard


def test_a_failed_start_is_told_to_all_who_waited(yard: Playbook) -> None:
    """Everybody who waited for the model gets the server's own words."""
    yard >> arrives(1, "qwen") << starts("qwen")
    yard >> arrives(2, "qwen") << nothing

    yard >> failed("qwen") << refuses(1, LoadFailed) << refuses(2, LoadFailed)
    assert yard.error.message == "qwen exited with code 1"
    yard << wakes_at(yard.now + 10)


def test_a_failed_start_is_not_tried_again_at_once(yard: Playbook) -> None:
    """An SDK that asks three times whatever it is told starts a broken model once, not three times."""
    yard >> arrives(1, "qwen") << starts("qwen")
    yard >> failed("qwen") << refuses(1) << wakes_at(yard.now + 10)

    yard.after(2) >> arrives(2, "qwen") << refuses(2, LoadFailed)
    assert yard.error.message.startswith("qwen failed and rests for 8 s more;")
    assert "Last failure: qwen exited with code 1" in yard.error.message
    yard.after(8) >> clock << nothing
    yard >> arrives(3, "qwen") << starts("qwen")


def test_a_resting_model_fails_fast(yard: Playbook) -> None:
    """After two failures in a row requests are refused with the cause and a time to come back."""
    fails_twice(yard)

    yard.after(0.25) >> arrives(1, "qwen") << refuses(1, LoadFailed)
    assert yard.error.retry_after == 0.75
    assert "failed 2 times in a row" in yard.error.message
    assert "Last failure: qwen was killed by SIGKILL" in yard.error.message


def test_a_rest_ends(yard: Playbook) -> None:
    """When the rest is over the next request starts the model again."""
    fails_twice(yard)
    yard.after(1) >> clock << nothing
    assert yard.phase("qwen") is Phase.COLD

    yard >> arrives(1, "qwen") << starts("qwen")


def test_rests_grow() -> None:
    """The wait doubles from one second to a minute; after a failed start it is ten seconds at least."""
    assert [rest_s(failures, Move.CRASH) for failures in range(1, 10)] == [0, 1, 2, 4, 8, 16, 32, 60, 60]
    assert [rest_s(failures, Move.FAIL) for failures in range(1, 9)] == [10, 10, 10, 10, 10, 16, 32, 60]


def test_an_explicit_load_forgives(yard: Playbook) -> None:
    """An operator who fixed something need not wait for the rest to end."""
    fails_twice(yard)

    yard >> load(1, "qwen") << starts("qwen")
    assert yard.view("qwen").failures == 0


def test_others_pass_while_it_rests(yard: Playbook) -> None:
    """The room of a model that failed is used by whoever waits next."""
    yard >> arrives(1, "qwen") << starts("qwen")
    yard >> arrives(2, "llama") << nothing

    yard >> failed("qwen") << refuses(1) << starts("llama") << wakes_at(yard.now + 10)


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


def test_a_crash_is_told_in_words(yard: Playbook) -> None:
    """Whoever looks at the model afterwards can read what happened."""
    yard.with_ready("qwen", 1)
    yard >> exited("qwen") << nothing

    assert yard.view("qwen").last_error == "qwen was killed by SIGKILL"
    assert yard.view("qwen").failures == 1


def test_those_who_waited_for_a_slot_when_it_crashed(stage: Stage) -> None:
    """The first crash is repaired at once: who had not been forwarded yet does not notice."""
    yard = stage(one_at_a_time(model("qwen", concurrency_limit=1)))
    yard.with_ready("qwen", 1)
    yard >> arrives(2, "qwen") << nothing

    yard >> exited("qwen") << starts("qwen")
    yard >> ready("qwen") << grants(2)


def test_the_second_crash_in_a_row_is_told_to_those_who_wait(stage: Stage) -> None:
    """A server that keeps dying rests, and nobody waits for it meanwhile."""
    yard = stage(one_at_a_time(model("qwen", concurrency_limit=1)))
    yard.with_ready("qwen", 1)
    yard >> exited("qwen") << nothing
    yard >> arrives(2, "qwen") << starts("qwen")
    yard >> ready("qwen") << grants(2)
    yard >> arrives(3, "qwen") << nothing

    yard >> exited("qwen") << refuses(3, LoadFailed) << wakes_at(11)


def test_a_crash_while_draining(yard: Playbook) -> None:
    """A victim that dies before it was drained makes room all the same."""
    yard.with_ready("qwen", 1)
    yard >> arrives(2, "llama") << wakes_at(50)
    yard.at(50) >> clock << nothing

    yard >> exited("qwen") << starts("llama")
    yard >> leaves(1) << nothing


def test_a_crash_while_being_stopped_is_an_exit(yard: Playbook) -> None:
    """However a server ends that was told to end, it ended as asked."""
    yard.with_ready("qwen")
    yard >> unload(1, "qwen") << stops("qwen")
    yard >> exited("qwen") << confirms(1)

    assert yard.view("qwen").failures == 0


@pytest.mark.parametrize(("lived", "failures"), [(59, 3), (60, 1)])
def test_a_server_that_lived_long_enough_has_shown_that_it_can(yard: Playbook, lived: float, failures: int) -> None:
    """A crash after a minute of life counts as the first."""
    fails_twice(yard)
    yard.after(1) >> clock << nothing
    yard >> arrives(1, "qwen") << starts("qwen")
    yard >> ready("qwen") << grants(1)
    yard.after(lived) >> exited("qwen")

    yard << (nothing if failures == 1 else wakes_at(yard.now + 2))
    assert yard.view("qwen").failures == failures


def test_a_long_life_that_ended_as_asked_clears_the_record(yard: Playbook) -> None:
    """After an hour of service, last week's failures do not make the next one worse."""
    fails_twice(yard)
    yard.after(1) >> clock << nothing
    yard >> arrives(3, "qwen") << starts("qwen")
    yard >> ready("qwen") << grants(3)
    yard >> leaves(3) << nothing
    yard.after(3600) >> unload(4, "qwen") << stops("qwen")
    yard >> exited("qwen") << confirms(4)

    assert yard.view("qwen").failures == 0


def test_an_unresponsive_server_is_stopped_and_started_for_the_next(yard: Playbook) -> None:
    """Whoever uses it is cut with the reason; its room is free when its process is gone, and then it starts anew."""
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
