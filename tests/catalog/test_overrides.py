"""What an operator sets for a model takes precedence over its configuration, and can be taken back."""

from __future__ import annotations

from dataclasses import replace

from tests.support.catalogs import model, one_at_a_time

from hotseat.catalog.overrides import NO_OVERRIDES, Configured, Overrides
from hotseat.identifiers import ModelName

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
