"""A handover is written by one version of hotseat and may be read by another."""

from __future__ import annotations

import json
from dataclasses import is_dataclass
from enum import Enum
from types import NoneType, UnionType
from typing import Any, Union, get_args, get_origin, get_type_hints

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import Struct
from tests.support.catalogs import gpu, model, on_any

from hotseat.catalog.catalog import must_restart
from hotseat.identifiers import ModelName, Place
from hotseat.scheduling.handover import Handover, ProcessSpec
from hotseat.scheduling.handover_json import VERSION, UnreadableHandover, from_json, to_json

MOST = 2**53
PLAIN = {
    str: st.text(max_size=5),
    int: st.integers(0, MOST),
    bool: st.booleans(),
    float: st.floats(0, 1e9),
    NoneType: st.none(),
    Place: st.builds(Place, st.text(max_size=3), st.text(max_size=3)),
}


def any_of(hint: Any) -> st.SearchStrategy[Any]:
    """Any value of a type: finite and of a size that JSON can hold."""
    hint = getattr(hint, "__supertype__", hint)
    if hint in PLAIN:
        return PLAIN[hint]
    if isinstance(hint, type) and (issubclass(hint, Struct) or is_dataclass(hint)):
        return st.builds(hint, **{name: any_of(each) for name, each in get_type_hints(hint).items()})
    if isinstance(hint, type) and issubclass(hint, Enum):
        return st.sampled_from(hint)
    if get_origin(hint) in (Union, UnionType):
        return st.one_of(*map(any_of, get_args(hint)))
    first, *rest = get_args(hint)
    if rest == [...]:
        return st.lists(any_of(first), max_size=2).map(tuple)
    return st.tuples(any_of(first), *map(any_of, rest))


@given(any_of(Handover))
def test_a_handover_is_read_as_it_was_written(handover: Handover) -> None:
    """Whatever it contains."""
    assert from_json(to_json(handover)) == handover


def test_what_a_newer_version_adds_is_ignored() -> None:
    """And what an older one leaves out has its default."""
    server = {
        "model": "qwen",
        "launch": 3,
        "spec": {"recipe": {"argv": ["serve"], "proxy": "http://x"}},
        "mood": "good",
    }
    text = json.dumps({"version": VERSION, "handover": {"servers": [server], "weather": "fine"}})
    (found,) = from_json(text.encode()).servers

    assert (found.model, found.launch, found.leases, found.departure) == ("qwen", 3, (), None)
    assert found.spec.recipe.argv == ("serve",)


def test_an_empty_handover_contains_nothing() -> None:
    """There were neither servers nor requests."""
    assert from_json(json.dumps({"version": VERSION}).encode()) == Handover()


@pytest.mark.parametrize(
    "text", [b"", b"no", b"[]", b"{}", b"\xff", b'{"version": 99}', b'{"version": 1, "handover": {"servers": [{}]}}']
)
def test_what_is_no_handover_of_this_version_is_refused(text: bytes) -> None:
    """The next process then starts as if there were none."""
    with pytest.raises(UnreadableHandover):
        from_json(text)


@pytest.mark.parametrize(
    "spec", [model("qwen"), model("qwen", gib=3), on_any("qwen", 4, 0, 1, count=1), on_any("qwen", None, 0, 1)]
)
def test_a_process_needs_no_restart_after_a_round_trip(spec: Any) -> None:
    """Its recipe, its memory and its cards are the same."""
    again = ProcessSpec.of(spec).as_spec(ModelName("qwen"))

    assert not must_restart(again, spec)
    assert again.gpus is None or gpu(0) in again.gpus.among
