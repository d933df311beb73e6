"""Which models must leave when another is loaded."""

from __future__ import annotations

import pytest

from hotseat.catalog.groups import ALONE, TOGETHER, Group, Groups
from hotseat.identifiers import ModelName


def names(*members: str) -> tuple[ModelName, ...]:
    return tuple(map(ModelName, members))


GROUPS = Groups(
    (
        Group("turns", members=names("t1", "t2")),
        Group("side", swap=False, exclusive=False, members=names("s1", "s2")),
        Group("always", exclusive=False, swap=False, persistent=True, members=names("p")),
    )
)


@pytest.mark.parametrize(
    ("resident", "wanted", "leaves"),
    [
        ("t1", "t2", True),  # one member at a time
        ("s1", "s2", False),  # members of a group without swap stay
        ("s1", "t1", True),  # an exclusive group pushes others out
        ("t1", "s1", False),  # a group that is not exclusive leaves them
        ("p", "t1", False),  # a persistent group stays
        ("p", "loner", False),
        ("t1", "p", False),
        ("loner", "t1", True),
        ("t1", "loner", True),  # the hidden group of the others is exclusive
        ("loner", "other", True),  # and has one member at a time
    ],
)
def test_groups_say_who_must_leave(resident: str, wanted: str, leaves: bool) -> None:
    """The rule is one-way: it depends on which model is loaded, not on which was there first."""
    assert GROUPS.must_leave(ModelName(resident), ModelName(wanted)) is leaves


def test_without_groups_models_run_one_at_a_time() -> None:
    """The default is what a machine with one card needs."""
    assert Groups().of(ModelName("any")) is ALONE
    assert Groups().must_leave(ModelName("a"), ModelName("b"))


def test_with_a_memory_budget_the_default_keeps_nobody_out() -> None:
    """Memory decides instead."""
    groups = Groups(default=TOGETHER)

    assert not groups.must_leave(ModelName("a"), ModelName("b"))
