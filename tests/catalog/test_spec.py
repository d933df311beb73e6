"""The small parts of what is known of a model."""

from __future__ import annotations

from dataclasses import replace

from tests.support.catalogs import GIB, gpu, model

from hotseat.catalog.cards import on_cards
from hotseat.catalog.spec import BodyChanges, Capabilities, GpuChoice
from hotseat.identifiers import ANY_GPU


def test_members_that_are_added_never_change_the_model() -> None:
    """Which model a request names decides who may send it, so a filter cannot set it."""
    changes = BodyChanges(strip=("seed",), set={"top_k": 1}).adding({"model": "other", "temperature": 0})

    assert changes.strip == ("seed",)
    assert changes.set == {"top_k": 1, "temperature": 0}


def test_capabilities_that_nobody_declared_are_none() -> None:
    """So that a list of models can leave them out."""
    assert not Capabilities()
    assert Capabilities(tools=True)


def test_cards_are_chosen_at_the_start_unless_they_are_declared() -> None:
    """With `gpus`, a size without a device is for the chosen cards; sizes on devices are for these."""
    choice = GpuChoice(1, (gpu(0),))

    assert replace(model("a"), gpus=choice).is_placed_at_start
    assert replace(model("a"), gpus=choice, memory={ANY_GPU: GIB}).is_placed_at_start
    assert not replace(model("a", gib=1), gpus=choice).is_placed_at_start
    assert not model("a", gib=1).is_placed_at_start


def test_cards_without_memory_still_count() -> None:
    """The model is then on the first of them, where it does not fit."""
    assert on_cards({ANY_GPU: GIB}, [gpu(0), gpu(1)], {}) == {gpu(0): GIB}
