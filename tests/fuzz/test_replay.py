"""What the fuzzer kept, played again: every input that once reached new code still breaks no promise."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from tests.fuzz.__main__ import CORPUS, NAMES
from tests.fuzz.targets import TARGETS

if TYPE_CHECKING:
    from pathlib import Path

MOST_BYTES = 1 << 20


def inputs(name: str) -> list[Path]:
    return sorted((CORPUS / name).iterdir())


@pytest.mark.parametrize("name", NAMES)
def test_kept_inputs_break_no_promise(name: str) -> None:
    """A target raises where one is broken."""
    assert inputs(name)
    for file in inputs(name):
        TARGETS[name](file.read_bytes())


def test_every_target_can_be_asked_for() -> None:
    """`just fuzz` and the replay know the same ones."""
    assert list(TARGETS) == list(NAMES)


def test_the_corpus_stays_small() -> None:
    """It travels with every clone."""
    assert sum(file.stat().st_size for name in NAMES for file in inputs(name)) < MOST_BYTES


def test_a_target_can_fail(monkeypatch: pytest.MonkeyPatch) -> None:
    """A search that cannot find anything would always be content."""
    monkeypatch.setattr("tests.fuzz.targets.model_in_json", lambda _: "another")

    with pytest.raises(AssertionError):
        TARGETS["bodies"](b'{"model": "this"}')
