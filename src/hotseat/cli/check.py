"""`hotseat check`: validates a configuration and explains its effect."""

from __future__ import annotations

import json
import os
import sys
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from hotseat.config.conversations import obstacle
from hotseat.config.effective import concurrency, listed, resolved
from hotseat.config.load import Loaded, read
from hotseat.config.problems import ConfigError, ConfigProblem, Problems, Severity
from hotseat.config.units import size_text
from hotseat.identifiers import ANY_GPU
from hotseat.memory.manager import devices_for_models, figures_of_this_machine
from hotseat.startup.preparation import CannotStart, load_access
from hotseat.state.state_file import conversations_directory

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence
    from pathlib import Path

    from hotseat.catalog.spec import Footprint

FINE, INVALID = 0, 3


def check(paths: list[Path], as_json: bool, lenient: bool) -> int:
    """Print errors and the effect of a configuration; 0 if hotseat could start with it, else 3."""
    try:
        loaded = read(paths, environ=os.environ, lenient=lenient, find_devices=devices_for_models)
        loaded = with_figures(loaded)
        refuse(loaded, str(paths[0]))
    except ConfigError as error:
        _report(as_json, error.problems, None)
        return INVALID
    loaded = replace(loaded, problems=(*loaded.problems, *unknown_sizes(loaded)))
    _report(as_json, loaded.problems, loaded)
    return FINE


def refuse(loaded: Loaded, file: str) -> None:
    """Raises ConfigError with what `hotseat serve` would say."""
    try:
        load_access(loaded.settings)
    except CannotStart as refused:
        raise ConfigError((*loaded.problems, ConfigProblem(Severity.ERROR, file, 1, 1, "", str(refused)))) from None


def with_figures(loaded: Loaded) -> Loaded:
    figures = figures_of_this_machine()
    catalog = figures.fill(loaded.catalog)
    return replace(loaded, catalog=catalog, measured=figures.measured(catalog))


def unknown_sizes(loaded: Loaded) -> tuple[ConfigProblem, ...]:
    """A warning for each model that keeps all others from running beside it, because its memory is not known."""
    catalog, problems = loaded.catalog, Problems("", loaded.spots)
    pinned = [name for name, spec in catalog.models.items() if spec.pinned]
    for name, spec in catalog.models.items():
        if catalog.budgets and spec.footprint(loaded.measured.get(name)) is None and len(catalog.models) > 1:
            others = [other for other in pinned if other != name]
            effect = f"never runs, because {others[0]} is pinned" if others else "runs only while no other model does"
            problems.warn(("models", name), f"its memory is unknown, so it {effect}", "Declare `memory`")
    return problems.ordered()


def _report(as_json: bool, problems: Sequence[ConfigProblem], loaded: Loaded | None) -> None:
    if as_json:
        print(json.dumps(_as_data(problems, loaded), indent=2, ensure_ascii=False))
        return
    for problem in problems:
        print(problem, file=sys.stderr)
    print(_summary(problems, loaded))


# Text


def _summary(problems: Sequence[ConfigProblem], loaded: Loaded | None) -> str:
    errors = sum(problem.severity is Severity.ERROR for problem in problems)
    if loaded is None:
        return f"{_count(errors, 'error')}: hotseat does not start with this configuration."
    warnings = sum(problem.severity is Severity.WARNING for problem in problems)
    lines = [f"ok: {_count(len(loaded.catalog.models), 'model')}, {_count(warnings, 'warning')}."]
    lines += concurrency(loaded.catalog)
    lines += memory_of_models(loaded)
    lines += kept_conversations(loaded, os.environ)
    if loaded.differences:
        lines += ["Differences from llama-swap:", *map(str, loaded.differences)]
    return "\n".join(lines)


def kept_conversations(loaded: Loaded, environ: Mapping[str, str]) -> Iterator[str]:
    """Says which models keep their conversations and where, and which do not and why; nothing if they are off."""
    disk, models = loaded.settings.conversations.disk, loaded.catalog.models
    if not disk:
        return
    if kept := [name for name, spec in models.items() if spec.keeps_conversations]:
        where = f"at most {size_text(disk)} in {conversations_directory(environ)}, removed when hotseat ends"
        yield f"Conversations are kept across swaps for {listed(kept)}: {where}."
    reasons = {name: obstacle(spec.recipe, environ) for name, spec in models.items() if name not in kept}
    if reasons:
        yield f"No conversations are kept for {listed([f'{name} ({reason})' for name, reason in reasons.items()])}."


def memory_of_models(loaded: Loaded) -> list[str]:
    """The memory that each model counts as and the source of the figure, where memory decides what runs."""
    models = loaded.catalog.models if loaded.catalog.budgets else {}
    return [f"{name} counts as {_figure(spec.footprint(loaded.measured.get(name)))}." for name, spec in models.items()]


def _figure(footprint: Footprint | None) -> str:
    if footprint is None:
        return "a whole device, because its memory is neither declared nor known"
    sizes = " and ".join(
        f"{size_text(size)} of {'its GPUs' if place == ANY_GPU else place}" for place, size in footprint.memory.items()
    )
    return f"{sizes or 'nothing'} ({footprint.source.value})"


def _count(number: int, thing: str) -> str:
    return f"{number} {thing}" if number == 1 else f"{number} {thing}s"


# For programs


def _as_data(problems: Sequence[ConfigProblem], loaded: Loaded | None) -> dict[str, Any]:
    return {
        "ok": loaded is not None,
        "problems": [_problem(problem) for problem in problems],
        "differences": [] if loaded is None else [_problem(each) for each in loaded.differences],
        "config": None if loaded is None else resolved(loaded),
    }


def _problem(problem: ConfigProblem) -> dict[str, Any]:
    return {
        "severity": problem.severity.value,
        "file": problem.file,
        "line": problem.line,
        "column": problem.column,
        "path": problem.path,
        "message": problem.message,
        "hint": problem.hint,
    }
