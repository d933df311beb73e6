"""What names lead to: variants of a model, models of peers, selectors, and all of it under a profile."""

from __future__ import annotations

from dataclasses import replace

import pytest

from hotseat.catalog.catalog import Catalog
from hotseat.catalog.named_models import FleetModel, Profile, RemoteModel, Selector, Strategy
from hotseat.catalog.spec import UNCHANGED, BodyChanges, LaunchRecipe, ModelSpec
from hotseat.errors import UnknownModel
from hotseat.identifiers import Address, ModelName

RECIPE = LaunchRecipe(argv=("server",), proxy="http://127.0.0.1:1")
QWEN = ModelSpec(
    ModelName("qwen"), RECIPE, aliases=("q", "qwen:high"), changes_by_name={"qwen:high": BodyChanges(set={"effort": 9})}
)
LLAMA = ModelSpec(ModelName("llama"), RECIPE, changes=BodyChanges(model_name="llama-3"))
FAR = RemoteModel(ModelName("box/far"), "box", Address("10.0.0.1", 80), BodyChanges("far"), api_key="sesame")
BEST = Selector("best", Strategy.WARM, ("q", "llama", "far"))
NIGHT = Profile("night", "", {"qwen": "llama", "big": "best", "cloud": "far", "llama": "", "q": "q"})

RIG = Catalog(
    {spec.name: spec for spec in (QWEN, LLAMA)},
    remotes={"box/far": FAR, "far": FAR},
    selectors={"best": BEST},
    profiles={"night": NIGHT},
)
ASLEEP = RIG.with_profile("night")


def test_a_name_may_bring_changes_of_its_own() -> None:
    """The model is the same, what is asked of it is not."""
    high = RIG.resolve("qwen:high")

    assert (high.name, dict(high.changes.set)) == ("qwen", {"effort": 9})
    assert RIG.resolve("q").changes is UNCHANGED
    assert RIG.models[ModelName("qwen")].changes is UNCHANGED


def test_a_client_may_ask_for_any_name() -> None:
    """Models, their aliases, selectors and models of peers are all one namespace."""
    assert RIG.named_model("far") is RIG.named_model("box/far") is FAR
    assert RIG.named_model("best") is BEST
    assert list(RIG.names()) == ["q", "qwen:high", "qwen", "llama", "best", "box/far", "far"]


def test_a_target_receives_its_own_name() -> None:
    """What a selector chooses is not called by the selector's name upstream."""
    assert [named_model.changes.model_name for named_model in RIG.choices(BEST)] == ["q", "llama-3", "far"]


def test_a_model_of_other_hosts_has_a_name_here_and_cannot_be_loaded_here() -> None:
    """A client may request it, unless a local model has the name; an operator's error says where to look."""
    rig = RIG.with_fleet_models({name: FleetModel(ModelName("distant")) for name in ("distant", "best", "far")})

    assert rig.follow("distant") == FleetModel(ModelName("distant"))
    assert rig.follow("best") is RIG.follow("best")
    assert rig.follow("far") is RIG.follow("far")
    with pytest.raises(UnknownModel, match=r'"distant" is a model of other hosts'):
        rig.resolve("distant")


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("best", '"best" is a selector. Name one of its targets: q, llama'),
        ("far", '"far" is a model of the peer "box": this hotseat cannot load or stop it'),
        (
            "nobody",
            'model "nobody" is not defined in the configuration. `hotseat list` and GET /v1/models list all models.',
        ),
    ],
)
def test_what_is_no_model_of_ours_cannot_be_loaded(name: str, message: str) -> None:
    """The error says what the name is instead."""
    with pytest.raises(UnknownModel) as refusal:
        RIG.resolve(name)

    assert refusal.value.message == message


def test_under_a_profile_names_lead_elsewhere() -> None:
    """To a model, a selector or a peer; a model receives its own name."""
    qwen = ASLEEP.named_model("qwen")

    assert isinstance(qwen, ModelSpec)
    assert (qwen.name, qwen.changes.model_name) == ("llama", "llama-3")
    assert ASLEEP.named_model("big") is BEST
    assert ASLEEP.named_model("cloud") is FAR


def test_a_pin_to_a_model_without_a_name_of_its_own_renames_it() -> None:
    """The server receives the name that was meant."""
    pinned = replace(RIG, profiles={"p": Profile("p", "", {"gpt": "q"})}, active_profile="p").named_model("gpt")

    assert isinstance(pinned, ModelSpec)
    assert (pinned.name, pinned.changes.model_name) == ("qwen", "q")


def test_a_name_that_is_switched_off_is_unknown() -> None:
    """The refusal says which profile did it."""
    with pytest.raises(UnknownModel) as refusal:
        ASLEEP.follow("llama")

    assert refusal.value.message == 'model "llama" is disabled by the active profile "night".'


def test_operators_and_selectors_do_not_see_the_profile() -> None:
    """A model can be stopped by its own name regardless of the profile."""
    assert ASLEEP.resolve("llama") is LLAMA
    assert [named_model.name for named_model in ASLEEP.choices(BEST)] == ["qwen", "llama", "box/far"]


def test_a_profile_that_is_gone_is_not_active() -> None:
    """A reload may take it away."""
    assert RIG.with_profile("day").active_profile is None
    assert ASLEEP.with_profile(None) == RIG


def test_a_key_is_not_shown() -> None:
    """Neither logs nor tracebacks tell it."""
    assert "sesame" not in repr(FAR)
