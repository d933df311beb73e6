"""The stage on which the scheduler's situations are played."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from tests.support.catalogs import one_at_a_time
from tests.support.playbook import Playbook

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.support.playbook import Stage

    from hotseat.catalog.catalog import Catalog


@pytest.fixture
def stage() -> Iterator[Stage]:
    """Opens yards; each is asked at the end whether anything was left unsaid."""
    yards: list[Playbook] = []

    def open_yard(catalog: Catalog) -> Playbook:
        yards.append(Playbook(catalog))
        return yards[-1]

    yield open_yard
    for yard in yards:
        yard.is_over()


@pytest.fixture
def yard(stage: Stage) -> Playbook:
    """Memory for one of qwen, llama and gemma at a time."""
    return stage(one_at_a_time("qwen", "llama", "gemma"))
