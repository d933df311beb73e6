"""The matrix: what its expressions allow, and errors about wrong ones."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from hotseat.catalog.groups import TOGETHER
from hotseat.config.effective import concurrency, resolved
from hotseat.config.matrix import MOST_SETS, NEVER_CHOSEN

if TYPE_CHECKING:
    from tests.support.config_files import ConfigFiles

MODELS = "models:\n" + "".join(f"  {name}: {{cmd: 's ${{PORT}}'}}\n" for name in ("a", "b", "c", "d", "org/big:7b"))


def sets(files: ConfigFiles, expression: str, more: str = "") -> list[str]:
    matrix = files.load(f"{MODELS}matrix: {{sets: {{s: '{expression}'{more}}}}}").catalog.groups.matrix
    assert matrix is not None
    return ["".join(members) for members in matrix.sets]


@pytest.mark.parametrize(
    ("expression", "allowed"),
    [
        ("a", ["a"]),
        ("a & b", ["ab"]),
        ("a | b", ["a", "b"]),
        ("a & b | c", ["ab", "c"]),  # & binds more tightly
        ("a & (b | c)", ["ab", "ac"]),
        ("(a|b)&(c|d)", ["ac", "ad", "bc", "bd"]),
        ("((a))", ["a"]),
        ("a & a", ["a"]),
        ("a | a", ["a"]),
    ],
)
def test_an_expression_is_the_list_of_its_alternatives(files: ConfigFiles, expression: str, allowed: list[str]) -> None:
    """Together, either and brackets work; duplicates count once."""
    assert sets(files, expression) == allowed


def test_a_set_may_use_others_wherever_they_stand(files: ConfigFiles) -> None:
    """`+name` stands for the other set in brackets."""
    assert sets(files, "a & +rest", ", rest: 'b | c'") == ["ab", "ac", "b", "c"]


def test_short_names_win_over_models(files: ConfigFiles) -> None:
    """`vars` gives an odd name a plain one, even one that a model has already."""
    text = MODELS + "matrix: {vars: {big: 'org/big:7b', a: b}, evict_costs: {big: 30, c: 2}, sets: {s: big & a}}"
    matrix = files.load(text).catalog.groups.matrix

    assert matrix is not None
    assert matrix.sets == (("org/big:7b", "b"),)
    assert matrix.evict_costs == {"org/big:7b": 30, "c": 2}


def test_both_places_of_the_matrix_mean_the_same(files: ConfigFiles) -> None:
    """In the newer key `use` decides between groups and matrix, and both may be present."""
    old = files.load(MODELS + "matrix: {sets: {s: a & b}}").catalog.groups
    settings = "settings: {groups: {g: {members: [c]}}, matrix: {sets: {s: a & b}}}"
    new = files.load(f"{MODELS}routing: {{router: {{use: matrix, {settings}}}}}").catalog.groups
    groups = files.load(f"{MODELS}routing: {{router: {{use: group, {settings}}}}}").catalog.groups

    assert old == new
    assert old.default is TOGETHER
    assert groups.matrix is None
    assert [group.name for group in groups.groups] == ["g"]


def test_no_price_makes_a_pinned_model_leave(files: ConfigFiles) -> None:
    """A set without it is never the cheapest while there is one with it."""
    text = MODELS.replace("a: {", "a: {pinned: yes, ") + "matrix: {evict_costs: {b: 999}, sets: {s: c & (b | a)}}"
    groups = files.load(text).catalog.groups
    a, b, c = (files.load(text).catalog.resolve(name).name for name in "abc")

    assert groups.matrix is not None
    assert groups.matrix.evict_costs[a] == NEVER_CHOSEN
    assert groups.pushed_out(c, (a, b)) == (b,)


def test_the_matrix_is_shown_in_words_and_as_data(files: ConfigFiles) -> None:
    """`check` says which models may run together."""
    loaded = files.load(MODELS + "matrix: {sets: {s: a & (b | c)}}")

    assert concurrency(loaded.catalog) == [
        "These may run together: a + b, a + c; models outside the cheapest matching set are unloaded.",
        "Models in no set (d, org/big:7b) run alone.",
    ]
    assert resolved(loaded)["matrix"] == {"sets": [["a", "b"], ["a", "c"]], "evictCosts": {}}


@pytest.mark.parametrize(
    ("matrix", "problem"),
    [
        ("{sets: {}}", "matrix.sets: at least one set is needed. Write name: a & b"),
        ("{}", "matrix.sets: at least one set is needed. Write name: a & b"),
        ("{sets: {s: ''}}", "matrix.sets.s: a name is missing at the end"),
        ("{sets: {s: a &}}", "matrix.sets.s: a name is missing at the end"),
        ("{sets: {s: '| a'}}", 'matrix.sets.s: a name is missing before "|"'),
        ("{sets: {s: a b}}", 'matrix.sets.s: "b" is unexpected here. Join names with & or |'),
        ("{sets: {s: (a}}", 'matrix.sets.s: a ")" is missing'),
        ("{sets: {s: a)}}", 'matrix.sets.s: ")" is unexpected here. Join names with & or |'),
        ("{sets: {s: '" + "(" * 60 + "a'}}", "matrix.sets.s: more than 50 nested brackets"),
        ("{sets: {s: 'a & org/big:7b'}}", 'matrix.sets.s: "/" cannot be used in an expression.'
         " Give the model a short name under vars"),
        ("{sets: {s: a & e}}", 'matrix.sets.s: no model and no var is called "e"'),
        ("{sets: {s: a & +t}}", 'matrix.sets.s: no set is called "t"'),
        ("{sets: {s: a | +s}}", "matrix.sets.s: the sets s → s form a cycle"),
        ("{sets: {s: a, t: +u, u: +t}}", "matrix.sets.u: the sets t → u → t form a cycle"),
        ("{vars: {x y: a}, sets: {s: a}}", 'matrix.vars["x y"]: a short name has 1 to 32 letters, digits, dots and'
         " hyphens"),
        ("{vars: {x: e}, sets: {s: a}}", 'matrix.vars.x: no model is called "e"'),
        ("{evict_costs: {e: 1}, sets: {s: a}}", 'matrix.evict_costs.e: no model and no var is called "e"'),
        ("{evict_costs: {a: 0}, sets: {s: a}}", "matrix.evict_costs.a: must be more than 0, not 0"),
    ],
)  # fmt: skip
def test_a_wrong_matrix_is_an_error_in_its_place(files: ConfigFiles, matrix: str, problem: str) -> None:
    """One mistake gives one error."""
    said = [each.partition(": error: ") for each in files.mistakes(f"{MODELS}matrix: {matrix}")]

    assert [(place.rpartition(":")[0], text) for place, _, text in said] == [("config.yaml:7", problem)]


def test_an_expression_that_means_too_much_is_refused(files: ConfigFiles) -> None:
    """Brackets multiply, so the number of alternatives is limited."""
    models = ", ".join(f"m{n}: {{cmd: 's ${{PORT}}'}}" for n in range(40))
    pairs = " & ".join(f"(m{n} | m{n + 1})" for n in range(0, 40, 2))
    said = files.mistakes(f"models: {{{models}}}\nmatrix: {{sets: {{s: '{pairs}'}}}}")

    assert said == [f"config.yaml:2:17: error: matrix.sets.s: the expression allows more than {MOST_SETS:,} sets"]


def test_groups_and_matrix_exclude_each_other(files: ConfigFiles) -> None:
    """Neither is valid together with routing.router."""
    both = files.mistakes(MODELS + "groups: {g: {members: [a]}}\nmatrix: {sets: {s: b}}")
    old_and_new = files.mistakes(MODELS + "matrix: {sets: {s: b}}\nrouting: {router: {use: group}}")

    assert both == ["config.yaml:8:1: error: matrix: groups and matrix cannot be combined. Keep one of them"]
    assert old_and_new == [
        "config.yaml:7:1: error: matrix: cannot be used together with routing.router."
        " Move matrix to routing.router.settings"
    ]


def test_use_matrix_needs_one(files: ConfigFiles) -> None:
    """`use: matrix` without a matrix is an error."""
    assert files.mistakes(MODELS + "routing: {router: {use: matrix}}") == [
        "config.yaml:7:11: error: routing.router.settings.matrix.sets: at least one set is needed. Write name: a & b"
    ]


@pytest.mark.parametrize(
    ("priorities", "urgencies"),
    [
        ("{a: 1}", {"a": 2.0, "b": 1.0}),
        ("{a: 100, bee: 5}", {"a": 4.0, "b": 2.0}),  # only their order counts
        ("{a: -3}", {"a": 0.5, "b": 1.0}),
        ("{a: 0}", {"a": 1.0, "b": 1.0}),
        ("{a: 7, b: 7}", {"a": 2.0, "b": 2.0}),
    ],
)
def test_priorities_become_urgencies(files: ConfigFiles, priorities: str, urgencies: dict[str, float]) -> None:
    """Each step doubles the model's urgency; an alias counts for its model."""
    text = "models:\n  a: {cmd: 's ${PORT}'}\n  b: {cmd: 's ${PORT}', aliases: [bee]}\n"
    scheduler = f"routing: {{scheduler: {{use: fifo, settings: {{fifo: {{priority: {priorities}}}}}}}}}"
    loaded = files.load(text + scheduler)

    assert {spec.name: spec.urgency for spec in loaded.catalog.models.values()} == urgencies
    assert loaded.problems == ()


def test_a_models_own_urgency_wins_over_a_priority(files: ConfigFiles) -> None:
    """hotseat's own key wins over llama-swap's."""
    text = "models: {a: {cmd: 's ${PORT}', urgency: 3}}\n"
    scheduler = "routing: {scheduler: {settings: {fifo: {priority: {a: 9}}}}}"

    assert files.load(text + scheduler).catalog.resolve("a").urgency == 3.0
