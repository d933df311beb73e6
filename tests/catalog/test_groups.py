"""Which models may be loaded together: groups, the matrix, and what only one can use."""

from __future__ import annotations

import pytest

from hotseat.catalog.groups import ALONE, TOGETHER, Group, Groups, Matrix
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


def named(text: str) -> tuple[ModelName, ...]:
    return tuple(map(ModelName, text.split()))


MATRIX = Matrix(
    (named("coder embed"), named("coder rerank"), named("embed rerank"), named("writer embed")),
    {ModelName("coder"): 5},
)


@pytest.mark.parametrize(
    ("wanted", "residents", "leaves"),
    [
        ("coder", "", ""),
        ("coder", "coder", ""),
        ("coder", "embed", ""),  # a set holds both
        ("rerank", "coder embed", "embed"),  # two by two, never all three; the dear one stays
        ("embed", "coder rerank", "rerank"),
        ("writer", "coder embed", "coder"),  # no set holds both: the price does not help
        ("writer", "coder rerank", "coder rerank"),
        ("loner", "coder embed", "coder embed"),  # in no set: alone
        ("coder", "loner embed", "loner"),
    ],
)
def test_the_cheapest_set_says_who_leaves(wanted: str, residents: str, leaves: str) -> None:
    """All loaded models count, not only pairs."""
    assert MATRIX.pushed_out(ModelName(wanted), named(residents)) == named(leaves)


def test_of_equally_cheap_sets_the_first_one_wins() -> None:
    """The order in the file decides."""
    first = Matrix((named("new a"), named("new b")))
    second = Matrix((named("new b"), named("new a")))

    assert first.pushed_out(ModelName("new"), named("a b")) == named("b")
    assert second.pushed_out(ModelName("new"), named("a b")) == named("a")


def test_groups_ask_their_matrix() -> None:
    """Where there is a matrix, the groups only pass the question on."""
    groups = Groups(default=TOGETHER, matrix=MATRIX)
    coder, embed, writer = named("coder embed writer")

    assert groups.pushed_out(writer, (coder, embed)) == (coder,)
    assert groups.must_leave(coder, writer)
    assert not groups.must_leave(coder, embed)
    assert groups.may_push_out(coder, embed)  # `embed rerank` has no place for it
    assert not groups.may_push_out(embed, writer)
    assert not groups.must_leave(coder, coder)


def test_groups_without_a_matrix_look_at_pairs() -> None:
    """Then it does not depend on what else is loaded."""
    a, b = named("a b")

    assert Groups().pushed_out(a, (b,)) == (b,)
    assert Groups().may_push_out(b, a)


def test_models_in_no_set_run_alone() -> None:
    """They are told apart from those that share a set with others."""
    assert MATRIX.alone(named("coder loner embed other")) == named("loner other")
