"""Names, lists and differences of catalogs."""

from __future__ import annotations

from dataclasses import replace

import pytest

from hotseat.catalog.catalog import Catalog, CatalogChange, compare
from hotseat.catalog.spec import BodyChanges, LaunchRecipe, ModelSpec
from hotseat.errors import UnknownModel
from hotseat.identifiers import LOCAL_HOST, DeviceName, ModelName, Place


def spec(name: str, *aliases: str, unlisted: bool = False, command: str = "server") -> ModelSpec:
    recipe = LaunchRecipe(argv=(command,), proxy="http://127.0.0.1:1")
    return ModelSpec(ModelName(name), recipe, aliases, unlisted=unlisted)


def catalog(*specs: ModelSpec) -> Catalog:
    return Catalog({spec.name: spec for spec in specs})


def test_a_model_is_found_by_its_name_and_by_each_alias() -> None:
    """Names and aliases lead to the same spec."""
    qwen = spec("qwen", "q", "gpt-4o")
    models = catalog(qwen, spec("llama"))

    assert models.find("qwen") is models.find("q") is models.resolve("gpt-4o") is qwen
    assert models.find("Q") is None
    assert list(models.names()) == ["q", "gpt-4o", "qwen", "llama"]


def test_a_name_wins_over_an_alias_that_is_spelled_alike() -> None:
    """A model can always be reached by its own name."""
    models = catalog(spec("qwen", "llama"), spec("llama"))

    assert models.resolve("llama").name == "llama"


def test_an_unknown_name_is_refused_with_the_nearest_one() -> None:
    """The refusal names the model that was asked for and one that was perhaps meant."""
    with pytest.raises(UnknownModel) as refusal:
        catalog(spec("qwen", "gpt-4o")).resolve("qwem")

    assert refusal.value.message == 'model "qwem" is not defined in the configuration. Did you mean "qwen"?'


def test_unlisted_models_are_not_listed() -> None:
    """They can be used, but the list does not show them."""
    models = catalog(spec("a"), spec("b", unlisted=True), spec("c"))

    assert [listed.name for listed in models.listed()] == ["a", "c"]
    assert models.find("b")


def test_the_only_model_exists_where_there_is_exactly_one() -> None:
    """With none or two it would be ambiguous."""
    assert catalog().only_model() is None
    assert catalog(spec("a")).only_model() == spec("a")
    assert catalog(spec("a"), spec("b")).only_model() is None


def test_catalogs_that_say_the_same_are_equal() -> None:
    """Equality is by content, so that a reload without a change is recognised."""
    assert catalog(spec("a")) == catalog(spec("a"))
    assert catalog(spec("a")) != catalog(spec("a", "alias"))


def test_a_reload_touches_only_what_reaches_the_process() -> None:
    """Added, removed and restarted models are distinguished; a new time limit restarts none."""
    a, b, c = spec("a"), spec("b"), spec("c")
    memory = {Place(LOCAL_HOST, DeviceName("gpu0")): 1}
    old = catalog(a, b, c, spec("gone"))
    new = catalog(replace(a, ttl_s=5.0, title="A"), spec("b", command="other"), replace(c, memory=memory), spec("new"))

    assert compare(old, new) == CatalogChange(
        added=(ModelName("new"),), changed=(ModelName("b"), ModelName("c")), removed=(ModelName("gone"),)
    )
    assert compare(old, new)
    assert not compare(old, old)


def test_a_model_that_is_added_in_front_of_others_restarts_none() -> None:
    """With `startPort` their next ports are other ones; those that run keep theirs."""
    before, after = (replace(spec("b"), recipe=replace(spec("b").recipe, preferred_port=port)) for port in (5800, 5801))

    assert compare(catalog(before), catalog(spec("a"), after)) == CatalogChange(added=(ModelName("a"),))


@pytest.mark.parametrize(
    ("argv", "proxy", "expected"),
    [
        ("s", "http://localhost:5801", {5801}),
        ("s ${PORT}", "http://localhost:${PORT}", set()),
        ("s ${PORT}", "http://localhost:5801", set()),  # written by somebody who counts from startPort
        ("s", "http://localhost:0", set()),  # the configuration reports it
    ],
)
def test_the_ports_that_no_other_server_may_get(argv: str, proxy: str, expected: set[int]) -> None:
    """Those of servers whose command has no `${PORT}`."""
    fixed = replace(spec("a"), recipe=LaunchRecipe(tuple(argv.split()), proxy))

    assert catalog(fixed).fixed_ports == expected


def test_a_recipe_wants_a_port_where_it_says_so() -> None:
    """`${PORT}` in the command or in the address asks for one."""
    assert LaunchRecipe(("server", "${PORT}"), "http://host:1").wants_port
    assert LaunchRecipe(("server",), "http://host:${PORT}").wants_port
    assert not LaunchRecipe(("server",), "http://host:1").wants_port


def test_changes_are_true_where_there_is_something_to_change() -> None:
    """A body without changes can pass as it is."""
    assert not BodyChanges()
    assert BodyChanges(model_name="x")
    assert BodyChanges(strip=("x",))
    assert BodyChanges(set={"x": 1})
