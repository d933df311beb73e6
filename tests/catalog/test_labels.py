"""The DNS label of each model."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.support.fake_launcher import catalog, spec

from hotseat.catalog.labels import LONGEST, labelled, slug
from hotseat.catalog.named_models import Profile
from hotseat.catalog.page_address import model_at
from hotseat.errors import UnknownModel
from hotseat.identifiers import ModelName

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

    assert {len(label) for label in found} == {LONGEST}
    assert len(set(found)) == 2


def test_an_unknown_label_names_the_nearest() -> None:
    """The error has the nearest label, and the key for a name of this host."""
    known = catalog(spec("Qwen.5"), spec("gemma"))

    assert model_at("qwen-5", known).name == "Qwen.5"
    with pytest.raises(UnknownModel, match=r'no model has its pages at qwen5.localhost. Did you mean "qwen-5"\?'):
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
