"""Lists of many models: the work is counted in names that are hashed or compared."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import pytest
from tests.support.fake_launcher import catalog, spec
from tests.support.management import management

from hotseat.identifiers import ModelName

if TYPE_CHECKING:
    from pathlib import Path

FEW, MANY = 40, 400


class Name(str):
    """Counts how often it is looked at."""

    __slots__ = ()
    looks = 0

    def __eq__(self, other: object) -> bool:
        Name.looks += 1
        return str.__eq__(self, other)

    def __hash__(self) -> int:
        Name.looks += 1
        return str.__hash__(self)


async def looks_for(path: str, number: int, socket: Path) -> int:
    models = catalog(*(replace(spec("model"), name=ModelName(Name(f"model-{n:05d}"))) for n in range(number)))
    async with management(socket, models) as rig:
        before = Name.looks
        (await rig.get(path)).raise_for_status()
        return Name.looks - before


@pytest.mark.parametrize("path", ["/hotseat/models", "/models", "/v1/models"])
async def test_each_model_of_a_list_costs_the_same_however_many_there_are(tmp_path: Path, path: str) -> None:
    """Ten times as many models are ten times as much work, not a hundred times."""
    few, many = [await looks_for(path, number, tmp_path / f"socket{number}") for number in (FEW, MANY)]

    assert few >= FEW
    assert many < 1.5 * MANY / FEW * few, (few, many)
