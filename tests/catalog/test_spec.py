"""The small parts of what is known of a model."""

from __future__ import annotations

from hotseat.catalog.spec import BodyChanges, Capabilities


def test_members_that_are_added_never_change_the_model() -> None:
    """Which model a request names decides who may send it, so a filter cannot set it."""
    changes = BodyChanges(strip=("seed",), set={"top_k": 1}).adding({"model": "other", "temperature": 0})

    assert changes.strip == ("seed",)
    assert changes.set == {"top_k": 1, "temperature": 0}


def test_capabilities_that_nobody_declared_are_none() -> None:
    """So that a list of models can leave them out."""
    assert not Capabilities()
    assert Capabilities(tools=True)
