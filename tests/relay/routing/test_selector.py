"""Which target a selector picks, for every state of its targets."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from tests.support.fake_launcher import spec

from hotseat.catalog.named_models import RemoteModel, Selector, Strategy
from hotseat.catalog.spec import BodyChanges
from hotseat.identifiers import Address, ModelName
from hotseat.relay.routing.route import choose
from hotseat.scheduling.lifecycle import Phase

if TYPE_CHECKING:
    from collections.abc import Mapping

    from hotseat.catalog.named_models import Servable

FAR = RemoteModel(ModelName("box/far"), "box", Address("10.0.0.1", 80), BodyChanges("far"))
COLD, LOADING, READY, BACKOFF = Phase.COLD, Phase.LOADING, Phase.READY, Phase.BACKOFF
DRAINING = Phase.DRAINING


class Targets:
    """Each has a phase and requests."""

    def __init__(self, states: Mapping[str, tuple[Phase, int]]) -> None:
        self._states = states

    def phase_of(self, model: ModelName) -> Phase:
        return self._states[model][0]

    def requests(self, model: ModelName) -> int:
        return self._states[model][1]


def chosen(
    strategy: Strategy, *targets: tuple[Phase, int], peer_requests: int | None = None, spillover: int = 2
) -> str:
    """Targets are called a, b, c …, each with a phase and its users; `peer_requests` appends a model of a peer."""
    names = "abcdef"[: len(targets)]
    states = Targets(dict(zip(names, targets, strict=True)))
    servable: list[Servable] = [*map(spec, names), *([] if peer_requests is None else [FAR])]
    selector = Selector("s", strategy, tuple(names), spillover)
    return choose(selector, servable, states, {FAR.name: peer_requests or 0}).name


def test_pin_means_the_first() -> None:
    """Pin picks the first target even if another one is ready."""
    assert chosen(Strategy.PIN, (COLD, 0), (READY, 0)) == "a"


@pytest.mark.parametrize(
    ("phases", "name"),
    [
        ([COLD, LOADING, READY], "c"),
        ([READY, READY], "a"),
        ([COLD, LOADING, LOADING], "b"),
        ([COLD, Phase.ASLEEP, LOADING], "c"),
        ([COLD, Phase.ASLEEP], "b"),
        ([COLD, COLD], "a"),
        ([DRAINING, COLD], "a"),  # nobody is warm: the first, though it must load anew
    ],
)
def test_warm_means_the_readiest(phases: list[Phase], name: str) -> None:
    """Warm prefers ready, then loading, then asleep, then the first target."""
    assert chosen(Strategy.WARM, *((phase, 0) for phase in phases)) == name


def test_a_model_of_a_peer_is_never_known_to_be_warm() -> None:
    """Warm does not prefer a peer's model to a cold local one that comes first."""
    assert chosen(Strategy.WARM, (COLD, 0), peer_requests=3) == "a"


@pytest.mark.parametrize(
    ("targets", "name"),
    [
        ([(COLD, 0), (COLD, 0)], "a"),
        ([(COLD, 0), (READY, 0)], "b"),  # what runs is filled before anything is loaded
        ([(READY, 1), (COLD, 0)], "a"),
        ([(READY, 2), (COLD, 0)], "b"),  # full: the next one begins
        ([(LOADING, 2), (LOADING, 1)], "b"),
        ([(COLD, 1), (COLD, 0)], "a"),  # somebody waits for it already
        ([(READY, 5), (READY, 3)], "b"),  # all are full: the emptiest
        ([(DRAINING, 1), (READY, 9), (COLD, 0)], "c"),  # whoever leaves takes nobody
        ([(BACKOFF, 0), (COLD, 0)], "b"),  # whoever failed just now comes last
        ([(DRAINING, 1), (BACKOFF, 0)], "a"),  # nobody is open: as if all were
    ],
)
def test_spillover_fills_one_after_the_other(targets: list[tuple[Phase, int]], name: str) -> None:
    """Spillover fills each running target with two requests, waiting ones included, before the next."""
    assert chosen(Strategy.SPILLOVER, *targets) == name


@pytest.mark.parametrize(("peer_requests", "name"), [(0, "box/far"), (1, "box/far"), (7, "a")])
def test_requests_flow_over_to_a_peer(peer_requests: int, name: str) -> None:
    """Spillover uses a peer until it has its number of requests."""
    assert chosen(Strategy.SPILLOVER, (READY, 2), peer_requests=peer_requests) == name
