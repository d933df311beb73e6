"""Properties of every scenario, whichever policy decides."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from bench.scheduling.mixes import HELD_OUT, TUNING, jittered
from bench.scheduling.runs import SCENARIOS, decider
from bench.scheduling.workloads import WORKLOADS

from hotseat.scheduling.memory_fit import Free, needs
from hotseat.scheduling.state import State
from hotseat.simulation.scenario import catalog_of
from hotseat.simulation.simulator import play
from hotseat.simulation.trace import jobs_of, parse, write

if TYPE_CHECKING:
    from collections.abc import Collection

    from hotseat.simulation.trace import Trace


@pytest.mark.parametrize("scenario", SCENARIOS)
def test_a_scenario_is_a_valid_trace(scenario: str) -> None:
    """It can be written to a file and run with `hotseat simulate`."""
    trace = SCENARIOS[scenario](1)

    assert parse(write(trace)) == trace


@pytest.mark.parametrize("name", WORKLOADS)
def test_fits_one_is_true_for_models_that_do_not_fit_in_pairs(name: str) -> None:
    """The bound is claimed for exactly those workloads of which no two models fit together."""
    trace = WORKLOADS[name].trace(1)
    state = State(catalog_of(trace))
    shares = [needs(state, each) for each in state.models.values()]
    pairs = [(a, b) for n, a in enumerate(shares) for b in shares[:n]]

    assert WORKLOADS[name].fits_one is not any(not Free(state, pair).exceeded() for pair in pairs)


@pytest.mark.parametrize("rule", ["turns", "fifo", "collate", "ollama"])
@pytest.mark.parametrize("scenario", ["d", "f2", "h2", "mix", "agents", "crowd"])
def test_memory_is_never_exceeded(scenario: str, rule: str) -> None:
    """At every start all running models fit together, and every request is served in the end."""
    trace = SCENARIOS[scenario](1)
    run = play(trace, decider(rule, trace))

    assert all(request.finished is not None for request in run.requests)
    for begun in run.stays:
        residents = [stay.model for stay in run.stays if stay.asked <= begun.asked < (stay.gone or float("inf"))]
        assert fit_together(trace, residents), (begun, residents)


def fit_together(trace: Trace, models: Collection[str]) -> bool:
    state = State(catalog_of(trace))
    taken = [needs(state, each) for name, each in state.models.items() if name in models]
    return not Free(state, taken).exceeded()


@pytest.mark.parametrize("scenario", SCENARIOS)
def test_a_seed_is_a_scenario(scenario: str) -> None:
    """The same seed gives the same trace."""
    assert SCENARIOS[scenario](3) == SCENARIOS[scenario](3)


@pytest.mark.parametrize("scenario", SCENARIOS)
def test_a_jitter_changes_every_service_time_a_little(scenario: str) -> None:
    """By up to 1 %, and nothing else of a request; the same number gives the same trace again."""
    trace = SCENARIOS[scenario](1)
    jobs, other = ([job for client in each.clients for job in jobs_of(client)] for each in (trace, jittered(trace, 1)))

    assert jittered(trace, 0) == trace
    assert jittered(trace, 1) == jittered(trace, 1) != jittered(trace, 2)
    assert [job.model for job in jobs] == [job.model for job in other]
    assert all(0.99 <= there.service / here.service <= 1.01 for here, there in zip(jobs, other, strict=True))


def test_no_policy_is_judged_on_the_seeds_it_was_tuned_with() -> None:
    """Otherwise its figures would say how well it knows them."""
    assert not {*TUNING} & {*HELD_OUT}
