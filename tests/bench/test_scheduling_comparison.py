"""How two policies are compared on random mixes."""

from __future__ import annotations

from dataclasses import replace

import pytest
from bench.scheduling.comparison import Gains, Mix, against, compared, noise, noise_floor, summary
from bench.scheduling.runs import COLLATE, TURNS, Cell, Outcome, outcome

PLAYED = outcome(Cell("g", 1, TURNS))


def played(
    user: float = 2.0,
    batch: float = 100.0,
    wait: float = 10.0,
    makespan: float = 500.0,
    decider: str = TURNS,
    jitter: int = 1,
) -> Outcome:
    figures = replace(PLAYED.figures, longest_wait_s=wait, makespan_s=makespan)
    return replace(PLAYED, cell=Cell("mix", 1, decider, jitter), figures=figures, clients={"u": user, "b": batch})


def test_each_client_has_one_vote() -> None:
    """Half the slowdown of a user outweighs a batch that takes twice as long, however many seconds that are."""
    found = compared(1, [played(user=1.0, batch=2000.0)], [played(user=2.0, batch=1000.0)])

    assert found.gains.clients == pytest.approx(1)


def test_a_gain_is_above_one_if_ours_is_better() -> None:
    """Their figures over ours: waits of 5 s instead of 10 are a gain of 2."""
    found = compared(1, [played(wait=5.0, makespan=1000.0)], [played()])

    assert (found.gains.longest_wait, found.gains.makespan, found.gains.loads) == (2, 0.5, 1)


def test_means_over_the_jitters_are_compared() -> None:
    """A policy that is better with one jitter and worse with the other is no different."""
    ours, theirs = [played(user=1.0), played(user=4.0, jitter=2)], [played(user=2.0), played(user=2.0, jitter=2)]

    assert compared(1, ours, theirs).gains.clients == pytest.approx(1)


def test_the_noise_floor_is_the_worst_run_of_the_policy_itself() -> None:
    """Where the runs of one policy hardly differ, 2 % are the floor."""
    calm, wild = [played(), played()], [played(user=1.0), played(user=4.0)]

    assert noise_floor(calm).clients == pytest.approx(1 / 1.02)
    assert noise_floor(wild).clients == pytest.approx(0.5**0.5)


@pytest.mark.parametrize(
    ("user", "wait", "makespan", "worse"),
    [
        (2.2, 11.0, 520.0, True),
        (2.03, 11.0, 520.0, False),
        (2.2, 10.1, 520.0, False),
        (2.2, 11.0, 505.0, False),
    ],
)
def test_worse_in_everything_means_everything(user: float, wait: float, makespan: float, worse: bool) -> None:
    """By more than 2 % for the clients, in the longest wait and in the makespan."""
    assert compared(1, [played(user, 100.0, wait, makespan)], [played()]).is_worse_in_all is worse


def test_a_loss_within_the_noise_is_none() -> None:
    """A policy is not blamed for what a change of 1 % does to the other one."""
    theirs = [played(), played(user=4.0, wait=30.0, makespan=700.0, jitter=2)]

    assert not compared(1, [played(user=3.0, wait=21.0, makespan=610.0)], theirs).is_worse_in_all
    assert compared(1, [played(user=9.0, wait=61.0, makespan=910.0)], theirs).is_worse_in_all


def test_hotseat_is_compared_with_runs_of_the_same_jitter() -> None:
    """The other runs of collate say how much noise there is."""
    found = [
        played(user=1.0, batch=100.0),
        played(user=2.0, decider=COLLATE),
        played(user=3.0, decider=COLLATE, jitter=2),
    ]

    assert [mix.gains.clients for mix in against(found, "mix")] == [pytest.approx(2**0.5)]
    assert [mix.gains.clients for mix in noise(found, "mix")] == [pytest.approx((2 / 3) ** 0.5)]
    assert against(found, "agents") == []


def test_a_summary_counts_mixes_and_averages_ratios() -> None:
    """Twice as good and half as good average to equally good; within 2 % is no worse."""
    mixes = [mix(1, 2.0), mix(2, 0.5, is_worse_in_all=True), mix(3, 0.99)]
    found = summary(mixes)

    assert (found.mixes, found.worse_in_all) == (3, (2,))
    assert found.no_worse == pytest.approx(2 / 3)
    assert found.gain == pytest.approx(0.99 ** (1 / 3))
    assert (found.worst, found.best) == (0.5, 2.0)


def mix(seed: int, gain: float, *, is_worse_in_all: bool = False) -> Mix:
    return Mix(seed, Gains(gain, 1.0, 1.0, 1.0), is_worse_in_all, 0.25)
