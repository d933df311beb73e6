"""The report: on the terminal, and as the page docs/reference/memory-bench.md."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from bench.memory.play import MIB
from tests.support.llama import REPOSITORY

if TYPE_CHECKING:
    from bench.memory.play import Outcome

    from hotseat.identifiers import Bytes

PAGE = REPOSITORY / "docs/reference/memory-bench.md"

TEMPLATE = Path(__file__).with_name("page.md")


class Shown:
    """An outcome with formatted figures."""

    def __init__(self, outcome: Outcome) -> None:
        self._outcome = outcome
        self.peak_mb = outcome.peak // MIB
        self.failures = len(outcome.problems)

    def __getattr__(self, name: str) -> object:
        return getattr(self._outcome, name)


def page(alone: Outcome, together: Outcome, budget: Bytes, sizes: list[Bytes]) -> str:
    return TEMPLATE.read_text().format(
        requests=together.requests,
        looks=together.looks,
        budget=budget // MIB,
        part=together.peak / budget,
        fewer=alone.loads / together.loads,
        alone=Shown(alone),
        together=Shown(together),
        smallest=min(sizes) // MIB,
        largest=max(sizes) // MIB,
        all_mb=sum(sizes) // MIB,
    )
