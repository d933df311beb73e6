"""Which models must leave according to the configured sets."""

from __future__ import annotations

import pytest

from hotseat.catalog.groups import TOGETHER, Groups
from hotseat.catalog.matrix import Matrix
from hotseat.identifiers import ModelName


def names(text: str) -> tuple[ModelName, ...]:
    return tuple(map(ModelName, text.split()))


MATRIX = Matrix(
    (names("coder embed"), names("coder rerank"), names("embed rerank"), names("writer embed")),
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
    assert MATRIX.pushed_out(ModelName(wanted), names(residents)) == names(leaves)


def test_of_equally_cheap_sets_the_first_one_wins() -> None:
    """The order in the file decides."""
    first = Matrix((names("new a"), names("new b")))
    second = Matrix((names("new b"), names("new a")))

    assert first.pushed_out(ModelName("new"), names("a b")) == names("b")
    assert second.pushed_out(ModelName("new"), names("a b")) == names("a")


def test_groups_ask_their_matrix() -> None:
    """Where there is a matrix, the groups only pass the question on."""
    groups = Groups(default=TOGETHER, matrix=MATRIX)
    coder, embed, writer = names("coder embed writer")

    assert groups.pushed_out(writer, (coder, embed)) == (coder,)
    assert groups.must_leave(coder, writer)
    assert not groups.must_leave(coder, embed)
    assert groups.may_push_out(coder, embed)  # `embed rerank` has no place for it
    assert not groups.may_push_out(embed, writer)
    assert not groups.must_leave(coder, coder)


def test_groups_without_a_matrix_look_at_pairs() -> None:
    """Then it does not depend on what else is loaded."""
    a, b = names("a b")

    assert Groups().pushed_out(a, (b,)) == (b,)
    assert Groups().may_push_out(b, a)


def test_models_in_no_set_run_alone() -> None:
    """They are told apart from those that share a set with others."""
    assert MATRIX.alone(names("coder loner embed other")) == names("loner other")
