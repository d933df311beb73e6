"""Servers that fail to start, or die: what clients receive, and when a new start is tried."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tests.support.catalogs import model, one_at_a_time
from tests.support.scheduler_driver import (
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

from hotseat.errors import Busy, LoadFailed
from hotseat.identifiers import ModelName
from hotseat.scheduling.commands import Cause
from hotseat.scheduling.events import UpstreamExited, looked
from hotseat.scheduling.lifecycle import Phase
from hotseat.scheduling.transitions import backoff_s

if TYPE_CHECKING:
    from tests.support.scheduler_driver import NewDriver, SchedulerDriver


def test_a_failed_start_refuses_all_who_waited_with_the_reason(driver: SchedulerDriver) -> None:
    """Every waiting request gets the reason, and no Retry-After."""
    driver >> arrives(1, "qwen") << starts("qwen")
    driver >> arrives(2, "qwen") << nothing

    driver >> failed("qwen") << refuses(1, LoadFailed) << refuses(2, LoadFailed)
    assert driver.error.message == "qwen exited with code 1"
    assert driver.error.retry_after is None


def test_after_a_failed_start_the_next_request_tries_again_at_once(driver: SchedulerDriver) -> None:
    """After a repair, or mere bad luck, no request needs to wait."""
    driver >> arrives(1, "qwen") << starts("qwen")
    driver >> failed("qwen") << refuses(1)
    assert driver.phase("qwen") is Phase.COLD

    driver >> arrives(2, "qwen") << starts("qwen")


def test_from_the_second_failure_on_a_model_rests(driver: SchedulerDriver) -> None:
    """An SDK that asks again and again does not evict a working model each time: it gets the cause, and when."""
    driver.with_backoff("qwen")

    driver.after(0.25) >> arrives(1, "qwen") << refuses(1, LoadFailed)
    assert driver.error.retry_after == 1.75
    assert driver.error.message == (
        "qwen is not ready: it failed 2 times in a row and is backing off, next try in 2 s"
        " (`hotseat load qwen` tries now). Last failure: qwen exited with code 1"
    )


def test_clients_need_not_wait_for_a_model_that_cannot_start(driver: SchedulerDriver) -> None:
    """It backs off, so that it evicts no other, but a client that waited would wait in vain; the next process knows."""
    for ticket in (1, 2):
        driver >> arrives(ticket, "qwen") << starts("qwen")
        driver >> failed("qwen", may_pass=False) << refuses(ticket)
        driver << (nothing if ticket == 1 else wakes_at(driver.now + 2))

    driver >> arrives(3, "qwen") << refuses(3, LoadFailed)
    assert (driver.error.retry_after, driver.error.retry_helps) == (None, False)
    assert "next try in 2 s (`hotseat load qwen` tries now)" in driver.error.message

    after = driver.handed_over() << wakes_at(driver.now + 2)
    after >> arrives(4, "qwen") << refuses(4, LoadFailed)
    assert after.error.retry_after is None


def test_a_crash_after_a_missing_file_may_pass(driver: SchedulerDriver) -> None:
    """The last failure counts: the file is there again, and the server died of something else."""
    for ticket, may_pass in ((1, False), (2, True)):
        driver >> arrives(ticket, "qwen") << starts("qwen")
        driver >> failed("qwen", may_pass=may_pass) << refuses(ticket)
        driver << (nothing if ticket == 1 else wakes_at(driver.now + 2))

    driver >> arrives(3, "qwen") << refuses(3, LoadFailed)
    assert (driver.error.retry_after, driver.error.retry_helps) == (2, True)


def test_a_rest_ends(driver: SchedulerDriver) -> None:
    """When the backoff ends the next request starts the model again; if that fails too, the backoff is longer."""
    driver.with_backoff("qwen")
    driver.after(2) >> clock << nothing
    assert driver.phase("qwen") is Phase.COLD

    driver >> arrives(1, "qwen") << starts("qwen")
    driver >> failed("qwen") << refuses(1) << wakes_at(driver.now + 4)


def test_rests_grow() -> None:
    """The wait doubles from two seconds to a minute, from the second failure in a row on."""
    assert [backoff_s(failures) for failures in range(9)] == [0, 0, 2, 4, 8, 16, 32, 60, 60]


def test_a_server_that_dies_before_it_has_answered_anybody_counts_like_a_failed_start(driver: SchedulerDriver) -> None:
    """Becoming ready is not enough: many die of their first request."""
    for ticket in (1, 2):
        driver >> arrives(ticket, "qwen") << starts("qwen")
        driver >> ready("qwen") << grants(ticket)
        driver >> leaves(ticket, is_answered=False) << nothing
        driver >> exited("qwen")
        driver << (nothing if ticket == 1 else wakes_at(driver.now + 2))

    assert driver.view("qwen").failures == 2


def test_a_server_that_dies_after_an_answer_starts_again_time_after_time(driver: SchedulerDriver) -> None:
    """It works: it was killed, or a rare request crashes it."""
    for ticket in (1, 2, 3, 4):
        driver >> arrives(ticket, "qwen") << starts("qwen")
        driver >> ready("qwen") << grants(ticket)
        driver >> leaves(ticket) << nothing
        driver >> exited("qwen") << nothing

        assert (driver.phase("qwen"), driver.view("qwen").failures) == (Phase.COLD, 0)


def test_one_answer_clears_the_record(driver: SchedulerDriver) -> None:
    """The next failure is the first again."""
    driver.with_backoff("qwen")
    driver.after(2) >> clock << nothing
    driver >> arrives(1, "qwen") << starts("qwen")
    driver >> ready("qwen") << grants(1)
    driver >> arrives(2, "qwen") << grants(2)
    assert driver.view("qwen").failures == 2
    driver >> leaves(1) << nothing

    assert driver.view("qwen").failures == 0


def test_what_a_server_wrote_is_not_shown_to_clients(driver: SchedulerDriver) -> None:
    """There may be prompts of others in it; operators find it in the view."""
    for ticket in (1, 2):
        driver >> arrives(ticket, "qwen") << starts("qwen")
        driver >> ready("qwen") << grants(ticket)
        driver >> exited("qwen", output=("slot 0: secret prompt",))
        driver << (nothing if ticket == 1 else wakes_at(driver.now + 2))
    driver >> arrives(3, "qwen") << refuses(3, LoadFailed)

    assert "secret" not in driver.error.message
    assert "secret" not in driver.view("qwen").why
    assert driver.view("qwen").last_error.endswith("its last output was:\nslot 0: secret prompt")


def test_an_explicit_load_forgives(driver: SchedulerDriver) -> None:
    """An operator who fixed something need not wait for the backoff to end."""
    driver.with_backoff("qwen")

    driver >> load(1, "qwen") << starts("qwen")
    assert driver.view("qwen").failures == 0


def test_an_explicit_load_forgives_even_if_the_queue_is_full(new_driver: NewDriver) -> None:
    """Its model is tried by the next request then."""
    driver = new_driver(one_at_a_time("qwen", "llama", max_queue=1)).with_backoff("qwen")
    driver >> load(1, "llama") << starts("llama")
    driver >> load(2, "qwen") << refuses(2, Busy)

    assert driver.view("qwen").failures == 0


def test_others_pass_when_it_fails(driver: SchedulerDriver) -> None:
    """The memory of a model that failed goes to the next waiting one."""
    driver >> arrives(1, "qwen") << starts("qwen")
    driver >> arrives(2, "llama") << nothing

    driver >> failed("qwen") << refuses(1) << starts("llama")


def test_a_crash_in_use(driver: SchedulerDriver) -> None:
    """A dead server's leases are void; giving them back later changes nothing."""
    driver.with_ready("qwen", 1)
    driver >> exited("qwen") << nothing
    assert driver.view("qwen").in_flight == 0
    driver >> leaves(1) << nothing

    driver >> arrives(2, "qwen") << starts("qwen")


def test_a_failure_is_reported_with_its_count_and_the_next_try(driver: SchedulerDriver) -> None:
    """The first one costs no pause, the second one two seconds."""
    driver >> arrives(1, "qwen") << starts("qwen")
    driver.at(3) >> failed("qwen") << refuses(1)
    driver >> arrives(2, "qwen") << starts("qwen")
    driver.at(6) >> failed("qwen") << refuses(2) << wakes_at(8)

    assert [(each.is_crash, each.after_s, each.failures, each.retry_in_s) for each in driver.failures] == [
        (False, 3.0, 1, 0.0),
        (False, 3.0, 2, 2.0),
    ]


def test_a_crash_is_reported_with_what_to_do(driver: SchedulerDriver) -> None:
    """A crash after a response does not count; the next request starts the model."""
    driver.with_ready("qwen", 1)
    driver >> leaves(1) << nothing
    launch, output = driver.launches["qwen"], ("last words",)
    driver.after(8) >> UpstreamExited(ModelName("qwen"), launch, "was terminated by SIGKILL", output, "Help") << nothing

    [report] = driver.failures
    assert (report.is_crash, report.after_s, report.failures, report.retry_in_s) == (True, 8.0, 0, 0.0)
    assert (report.error, report.output) == ("qwen was terminated by SIGKILL. Help", ("last words",))
    assert driver.view("qwen").why == "qwen was terminated by SIGKILL. Help"


def test_a_lease_from_before_the_crash_does_not_count_for_the_successor(driver: SchedulerDriver) -> None:
    """An orphaned lease is given back while the next process runs, and frees nothing there."""
    driver.with_ready("qwen", 1)
    driver >> exited("qwen") << nothing
    driver >> arrives(2, "qwen") << starts("qwen")
    driver >> ready("qwen") << grants(2)
    driver >> leaves(1) << nothing

    assert driver.view("qwen").in_flight == 1


def test_a_crash_is_described_in_words(driver: SchedulerDriver) -> None:
    """The view of the model says afterwards what happened."""
    driver.with_ready("qwen", 1)
    driver >> exited("qwen") << nothing

    assert driver.view("qwen").last_error == "qwen was killed by SIGKILL"
    assert driver.view("qwen").failures == 1


def test_those_who_waited_for_a_slot_when_it_crashed(new_driver: NewDriver) -> None:
    """The first crash is repaired at once: requests that had not been forwarded do not notice."""
    driver = new_driver(one_at_a_time(model("qwen", concurrency_limit=1)))
    driver.with_ready("qwen", 1)
    driver >> arrives(2, "qwen") << nothing

    driver >> exited("qwen") << starts("qwen")
    driver >> ready("qwen") << grants(2)


def test_the_second_crash_in_a_row_refuses_those_who_wait(new_driver: NewDriver) -> None:
    """A server that keeps dying backs off, and no request waits for it meanwhile."""
    driver = new_driver(one_at_a_time(model("qwen", concurrency_limit=1)))
    driver.with_ready("qwen", 1)
    driver >> exited("qwen") << nothing
    driver >> arrives(2, "qwen") << starts("qwen")
    driver >> ready("qwen") << grants(2)
    driver >> arrives(3, "qwen") << nothing

    driver >> exited("qwen") << refuses(3, LoadFailed) << wakes_at(12)


def test_a_crash_while_draining(driver: SchedulerDriver) -> None:
    """A victim that dies before it was drained frees its memory all the same."""
    driver.with_ready("qwen", 1)
    driver >> arrives(2, "llama") << wakes_at(50)
    driver.at(50) >> clock << nothing

    driver >> exited("qwen") << starts("llama")
    driver >> leaves(1) << nothing


def test_a_crash_while_being_stopped_is_an_exit(driver: SchedulerDriver) -> None:
    """However a server ends after it was told to stop, that is the exit as asked."""
    driver.with_ready("qwen")
    driver >> unload(1, "qwen") << stops("qwen")
    driver >> exited("qwen") << confirms(1)

    assert driver.view("qwen").failures == 0


def test_an_unresponsive_server_is_stopped_and_started_for_the_next(driver: SchedulerDriver) -> None:
    """Its requests are cut with the reason; when its process is gone its memory is free, and it starts again."""
    driver.with_ready("qwen")
    driver >> arrives(1, "qwen") << grants(1)
    driver >> unresponsive("qwen") << cuts(1)
    driver >> leaves(1) << stops("qwen", cause=Cause.UNRESPONSIVE)
    driver >> arrives(2, "qwen") << nothing

    driver >> exited("qwen") << starts("qwen")
    driver >> ready("qwen") << grants(2)


def test_an_unresponsive_server_that_drains_holds_nobody_up(driver: SchedulerDriver) -> None:
    """A swap waits for requests in flight, but not for a server that will never answer them."""
    driver.with_ready("qwen")
    driver >> arrives(1, "qwen") << grants(1)
    driver >> unload(9, "qwen") << wakes_at(driver.now + 10)
    driver >> unresponsive("qwen") << cuts(1)

    driver >> leaves(1) << stops("qwen")


def test_the_silence_of_an_earlier_launch_is_nothing_to_the_present_one(driver: SchedulerDriver) -> None:
    """A fact that comes late is about another process."""
    driver.with_ready("qwen")
    driver >> arrives(1, "qwen") << grants(1)

    driver >> unresponsive("qwen", launch=99) << nothing


def test_a_file_that_is_missing(driver: SchedulerDriver) -> None:
    """Who asks and who waits is refused, and nothing is unloaded; a model with a server needs its files no more."""
    driver.with_ready("qwen", 1)
    driver >> arrives(2, "llama") << wakes_at(50)
    lacking = looked(arrives(3, "llama"), "no program is there.")

    driver >> lacking << refuses(2, LoadFailed) << refuses(3, LoadFailed)
    assert driver.error.message == "llama is not ready: no program is there."
    assert driver.view("llama").failures == 1
    assert driver.view("llama").last_error == driver.error.message
    driver >> looked(arrives(4, "qwen"), "/srv/qwen.gguf") << grants(4)
