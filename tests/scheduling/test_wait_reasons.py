"""The longest possible wait, and the effect of patience."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.support.busy_clients import BusyClients, Pace
from tests.support.catalogs import one_at_a_time

from hotseat.identifiers import ModelName

pytestmark = pytest.mark.uncounted

NAMES = [ModelName("qwen"), ModelName("llama"), ModelName("gemma")]


@settings(max_examples=settings().max_examples // 2)
@given(
    models=st.integers(2, 3),
    clients=st.integers(1, 3),
    patience=st.sampled_from([0.0, 0.5, 2.0]),
    load=st.floats(1, 60),
    stop=st.sampled_from([0.1, 1.0, 5.0]),
    share=st.sampled_from([0.3, 1.0, 2.0]),
)
def test_nobody_waits_longer_than_the_bound(
    models: int, clients: int, patience: float, load: float, stop: float, share: float
) -> None:
    """Two turns and a swap of each other contender, and its own load: no model waits longer under any load."""
    pace = Pace(load, stop, service=share * load)
    bound = models * (pace.load + pace.stop + pace.service) + (models - 1) * 2 * patience * 2 * pace.load
    busy = BusyClients(one_at_a_time(*NAMES[:models], patience=patience), pace)
    busy.run(NAMES[:models] * clients, until=3 * bound)

    assert 0 < max(busy.longest_wait.values()) <= bound + 1e-6


def test_two_clients_on_two_models_do_not_thrash() -> None:
    """With overlapping requests on both sides, patience turns dozens of swaps into a few."""
    pace = Pace(load=10, stop=1, service=3)
    hasty, patient = (BusyClients(one_at_a_time(*NAMES[:2], patience=patience), pace) for patience in (0, 2))
    for busy in (hasty, patient):
        busy.run(NAMES[:2] * 2, until=2000)

    assert patient.loads < hasty.loads / 2


@pytest.mark.parametrize("others", [1, 10])
def test_many_clients_gain_nothing_by_their_number(others: int) -> None:
    """Turns are counted in time, not in requests: ten clients hold a model no longer than one."""
    busy = BusyClients(one_at_a_time(*NAMES[:2]), Pace(load=10, stop=1, service=5))
    busy.run([NAMES[0]] * others + [NAMES[1]], until=1500)

    assert busy.longest_wait[NAMES[1]] <= 2 * (10 + 1 + 5) + 2 * 2 * 2 * 10
