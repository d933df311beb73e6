"""Troubleshooting quotes messages as the program says them, so that a search for what one sees finds the page."""

from __future__ import annotations

import ast
import re
from typing import TYPE_CHECKING

import pytest
from scripts.make_docs import DOCS
from tests.support.page_blocks import blocks_of

if TYPE_CHECKING:
    from collections.abc import Iterator

PAGE = (DOCS / "howto/troubleshooting.md").read_text()
SYMPTOMS = (
    "Nothing answers", "The port is in use", "Another computer", "404", "401 and 403", "503: the model does not fit",
    "503: the model fails to start", "loads forever", "502 and 504", "429", "swap too often", "first token",
    "Streams are cut", "GPU is not found", "reverse proxy", "reload is rejected", "After an upgrade", "host of a fleet",
)  # fmt: skip
OF_OTHER_PROGRAMS = ("Address already in use", "invalid magic", "unknown model architecture")
QUOTED = re.compile(r"`([^`]+)`")
COMMANDS = ("hotseat ", "sudo ")
FEWEST_WORDS = 5
"""Of a message within a sentence or a table, unless it has a part that differs: commands and keys are shorter."""
CLAUSE = re.compile(r"[…:;,.()\"`]| - ")


def quotes() -> Iterator[str]:
    for block in blocks_of(PAGE):
        if block.kind == "text":
            yield from block.text.splitlines()
    for line in re.sub(r"```text\n.*?```", "", PAGE, flags=re.DOTALL).splitlines():
        yield from (text for text in QUOTED.findall(line) if is_message(text))


def is_message(text: str) -> bool:
    return not text.startswith(COMMANDS) and ("…" in text or len(text.split()) >= FEWEST_WORDS)


def said() -> str:
    """Every text in the program, with the pieces of one that has fields in it apart."""
    trees = [ast.parse(path.read_text()) for path in (DOCS.parent / "src/hotseat").rglob("*.py")]
    nodes = [node for tree in trees for node in ast.walk(tree) if isinstance(node, ast.Constant)]
    return "\n".join(" ".join(node.value.split()) for node in nodes if isinstance(node.value, str))


def clauses(quote: str) -> list[str]:
    """Parts of two words or more: what stands between fields and marks."""
    parts = (part.strip() for part in CLAUSE.split(quote))
    return [part for part in parts if " " in part and part not in OF_OTHER_PROGRAMS]


def is_said(clause: str, program: str) -> bool:
    """As it is, or in two pieces: a sentence may be made of two texts."""
    words = clause.split()
    halves = [(" ".join(words[:at]), " ".join(words[at:])) for at in range(1, len(words))]
    return clause in program or any(first in program and second in program for first, second in halves)


def test_quoted_messages_are_in_the_program() -> None:
    """Each of their clauses is, word by word."""
    quoted, program = [clause for quote in quotes() for clause in clauses(quote)], said()

    assert len(quoted) > 100
    assert [clause for clause in quoted if not is_said(clause, program)] == []


@pytest.mark.parametrize("symptom", SYMPTOMS)
def test_a_symptom_has_a_heading(symptom: str) -> None:
    """People look for what they see."""
    assert [line for line in PAGE.splitlines() if line.startswith("## ") and symptom in line]
