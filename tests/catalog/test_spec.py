"""What is configured for a model, and what operators set for it."""

from __future__ import annotations

from dataclasses import replace

import pytest
from tests.support.catalogs import GIB, gpu, model, one_at_a_time

from hotseat.catalog.spec import (
    NO_OVERRIDES,
    BodyChanges,
    Capabilities,
    Configured,
    GpuChoice,
    LaunchRecipe,
    Overrides,
    on_cards,
)
from hotseat.identifiers import ANY_GPU, Address, ModelName


def test_members_that_are_added_never_change_the_model() -> None:
    """Which model a request names decides who may send it, so a filter cannot set it."""
    changes = BodyChanges(strip=("seed",), set={"top_k": 1}).adding({"model": "other", "temperature": 0})

    assert changes.strip == ("seed",)
    assert changes.set == {"top_k": 1, "temperature": 0}


@pytest.mark.parametrize(
    ("proxy", "address"),
    [
        ("http://127.0.0.1:9000", Address("127.0.0.1", 9000)),
        ("http://127.0.0.1:${PORT}", None),
        ("nonsense", None),
    ],
)
def test_a_server_listens_at_every_start_where_the_configuration_says(proxy: str, address: Address | None) -> None:
    """With `${PORT}` nobody knows before, and what is no address is reported by the configuration."""
    assert LaunchRecipe(("serve",), proxy).fixed_address == address


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


QWEN = ModelName("qwen")
SPEC = model("qwen", ttl_s=300.0)


def test_what_is_set_counts_and_what_is_configured_is_remembered() -> None:
    """What is not set stays as configured."""
    pinned = SPEC.with_overrides(Overrides(pinned=True))

    assert (pinned.pinned, pinned.ttl_s) == (True, 300)
    assert pinned.configured == Configured(pinned=False, ttl_s=300)


def test_a_ttl_of_zero_means_never() -> None:
    """As in the configuration."""
    assert SPEC.with_overrides(Overrides(ttl_s=0)).ttl_s is None


def test_new_overrides_replace_earlier_ones() -> None:
    """They do not add up, and the configuration is still known."""
    again = SPEC.with_overrides(Overrides(pinned=True)).with_overrides(Overrides(ttl_s=60))

    assert (again.pinned, again.ttl_s) == (False, 60)
    assert again.configured == Configured(pinned=False, ttl_s=300)


def test_overrides_that_are_taken_back() -> None:
    """The model is as configured again."""
    assert SPEC.with_overrides(Overrides(pinned=True, ttl_s=0)).with_overrides(NO_OVERRIDES) == SPEC


def test_overrides_survive_a_new_configuration_of_the_same_models() -> None:
    """They are carried over by name; those of models that are gone are dropped."""
    before = one_at_a_time("qwen", "llama").with_overrides(dict.fromkeys(map(ModelName, ("qwen", "llama")), PINNED))
    after = one_at_a_time(replace(SPEC, pinned=True)).with_overrides(before.overrides)

    assert after.overrides == {QWEN: PINNED}
    assert after.models[QWEN].configured == Configured(pinned=True, ttl_s=300)


PINNED = Overrides(pinned=True)
