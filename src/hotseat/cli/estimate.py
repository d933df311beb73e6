"""`hotseat estimate`: the memory a model will need, computed from its files and its command line."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

from hotseat.catalog.template import PORT, fill_hole
from hotseat.cli.problems import BadConfig, Problem
from hotseat.cli.queries import show_json
from hotseat.cli.tables import table, without_escapes
from hotseat.config.load import read
from hotseat.config.problems import ConfigError
from hotseat.config.units import size_text
from hotseat.errors import UnknownModel
from hotseat.estimates.estimate import estimate
from hotseat.estimates.files import Disk
from hotseat.estimates.report import Backing, CannotEstimate, Where
from hotseat.memory.manager import devices_for_models

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from hotseat.catalog.spec import ModelSpec
    from hotseat.estimates.report import Estimate, Line


def is_file(what: str) -> bool:
    """Whatever exists or looks like a path is one; everything else is the name of a model."""
    return what.endswith(".gguf") or Path(what).exists()


def estimate_file(path: str, more: tuple[str, ...]) -> Estimate:
    """`more` are further options of the model server."""
    argv = ("vllm", "serve", path) if Path(path).is_dir() else ("llama-server", "-m", path)
    return estimated(argv, os.environ, Path.cwd(), more)


def estimate_model(name: str, config: Sequence[Path], more: tuple[str, ...]) -> Estimate:
    spec = _spec(name, config)
    argv = tuple(fill_hole(word, PORT, 0) for word in spec.recipe.argv)
    return estimated(argv, {**os.environ, **dict(spec.recipe.env)}, Path.cwd(), more)


def _spec(name: str, config: Sequence[Path]) -> ModelSpec:
    try:
        return read(config, environ=os.environ, find_devices=devices_for_models).catalog.resolve(name)
    except ConfigError as error:
        raise BadConfig("\n".join(["the configuration has errors:", *map(str, error.problems)])) from None
    except UnknownModel as unknown:
        raise Problem(unknown.message) from None


def estimated(argv: tuple[str, ...], env: Mapping[str, str], working_dir: Path, more: tuple[str, ...] = ()) -> Estimate:
    try:
        return estimate(argv, Disk(working_dir), env=env, more=more)
    except CannotEstimate as problem:
        raise Problem(problem.message) from None


# Output


def show(found: Estimate, as_json: bool) -> None:
    if as_json:
        return show_json(_as_data(found))
    print(table(("PART", "KIND", "WHERE", "MEMORY", "SIZE"), [_row(line) for line in found.lines]))
    print()
    for sentence in (*totals(found), *(f"note: {note}" for note in found.notes)):
        print(without_escapes(sentence))
    return None


def _row(line: Line) -> tuple[str, ...]:
    return line.what, line.kind.value, line.where.value, line.backing.value, size_text(line.size)


def totals(found: Estimate) -> list[str]:
    return [_total(found, where) for where in Where if found.needed(where)]


def _total(found: Estimate, where: Where) -> str:
    said = f"{where.value}: {size_text(found.needed(where))}"
    if mapped := found.backed(where, Backing.MAPPED):
        said += f", of which {size_text(mapped)} is mapped from files"
    if read_once := found.backed(where, Backing.READ_ONCE):
        said += f"; another {size_text(read_once)} is only needed while loading"
    return said


def _as_data(found: Estimate) -> dict[str, Any]:
    return {
        "lines": [
            {
                "what": line.what,
                "bytes": line.size,
                "kind": line.kind.value,
                "where": line.where.value,
                "backing": line.backing.value,
            }
            for line in found.lines
        ],
        "needed": {where.value: found.needed(where) for where in Where},
        "device_share": found.device_share,
        "notes": list(found.notes),
    }
