"""What names stand for, and the labels of their pages."""

from __future__ import annotations

import re
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.support.fake_launcher import catalog, spec

from hotseat.catalog.catalog import Catalog, model_at
from hotseat.catalog.named_models import (
    LONGEST_LABEL,
    FleetModel,
    Profile,
    RemoteModel,
    Selector,
    Strategy,
    labelled,
    slug,
)
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


VALID = re.compile(r"[a-z0-9](?:[a-z0-9-]{0,61}[a-z0-9])?")
SIMILAR = st.text("aA-._/ é0", min_size=1, max_size=8) | st.text(min_size=1, max_size=90)


def labels(*names: str) -> list[str]:
    found = labelled(tuple(map(ModelName, names)))
    return [found.of_model[ModelName(name)] for name in names]


@pytest.mark.parametrize(
    ("name", "label"),
    [
        ("qwen", "qwen"),
        ("Qwen2.5-7B", "qwen2-5-7b"),
        ("unsloth/Qwen3-8B-GGUF:Q4_K_M", "unsloth-qwen3-8b-gguf-q4-k-m"),
        ("--a--b--", "a-b"),
        ("xn--nxasmq6b", "xn-nxasmq6b"),
        ("模型", "model"),
        ("a" * 62 + "-b", "a" * 62),
    ],
)
def test_a_name_as_a_label(name: str, label: str) -> None:
    """Letters and digits stay, in lower case; everything else becomes single hyphens between them."""
    assert slug(name) == label


@given(st.lists(SIMILAR, unique=True, max_size=12))
def test_every_model_has_a_label_of_its_own(names: list[str]) -> None:
    """Labels are valid, different, never encoded names, and do not depend on the order of the models."""
    found = labels(*names)

    assert all(VALID.fullmatch(label) and "--" not in label for label in found)
    assert len(set(found)) == len(names)
    assert dict(zip(names, found, strict=True)) == dict(zip(reversed(names), labels(*reversed(names)), strict=True))


@given(st.lists(SIMILAR, unique=True, min_size=1, max_size=6))
def test_a_label_leads_back_to_its_model(names: list[str]) -> None:
    """Label to name is the inverse of name to label."""
    found = labelled(tuple(map(ModelName, names)))

    assert {found.models[label] for label in found.of_model.values()} == set(names)


def test_a_name_that_is_a_label_keeps_it() -> None:
    """Of several names with the same label, the one that is this label keeps it; others have a suffix."""
    plain, dotted, upper = labels("a-b", "a.b", "A_B")

    assert plain == "a-b"
    assert re.fullmatch(r"a-b-[0-9a-f]{6}", dotted)
    assert re.fullmatch(r"a-b-[0-9a-f]{6}", upper)


def test_a_suffix_depends_on_its_name_alone() -> None:
    """Models that come and go do not change it while two names collide."""
    assert labels("a.b", "a_b")[0] == labels("z", "a/b", "a.b")[2] == labels("a-b", "a.b")[1]


def test_a_suffix_that_is_another_models_name_is_not_used() -> None:
    """Another suffix is found."""
    taken = labels("a.b", "a_b")[0]
    first, _, third = labels("a.b", "a_b", taken)

    assert third == taken
    assert first != taken


def test_long_names_with_the_same_beginning() -> None:
    """The suffix fits into the longest label."""
    found = labels("a" * 80 + "x", "a" * 80 + "y")

    assert {len(label) for label in found} == {LONGEST_LABEL}
    assert len(set(found)) == 2


def test_an_unknown_label_names_the_nearest() -> None:
    """The error has the nearest label, and the key for a name of this host."""
    known = catalog(spec("Qwen.5"), spec("gemma"))

    assert model_at("qwen-5", known).name == "Qwen.5"
    with pytest.raises(UnknownModel, match=r'no model has its pages at qwen5.localhost. If .* Did you mean "qwen-5"\?'):
        model_at("qwen5", known)
    with pytest.raises(UnknownModel, match="allowedHosts"):
        model_at("x", known)


@pytest.mark.parametrize(("to", "why"), [("beta", "is replaced by"), ("", "is disabled by")])
def test_a_profile_puts_no_other_server_in_a_models_place(to: str, why: str) -> None:
    """The origin of a model's pages is never given to another server, whose pages would find its storage."""
    night = Profile("night", "", {"alpha": to})
    known = catalog(spec("alpha"), spec("beta"))
    known = type(known)(known.models, profiles={"night": night}, active_profile="night")

    with pytest.raises(UnknownModel, match=f'{why} the active profile "night"'):
        model_at("alpha", known)
    assert model_at("beta", known).name == "beta"
