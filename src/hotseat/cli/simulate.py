"""`hotseat simulate`: a trace as recorded and with changed settings, side by side."""

from __future__ import annotations

import json
import os
import sys
from dataclasses import asdict, dataclass, replace
from typing import TYPE_CHECKING

from hotseat.cli.problems import BadConfig, Problem
from hotseat.cli.tables import table
from hotseat.config.load import read
from hotseat.config.problems import ConfigError
from hotseat.config.units import parse_size
from hotseat.memory.manager import devices_for_models, figures_of_this_machine
from hotseat.scheduling.scheduler import Scheduler
from hotseat.simulation.results import figures, machine_figures, recomputed_s
from hotseat.simulation.scenario import GIB, catalog_of, misplaced, with_gpus, with_memory
from hotseat.simulation.simulator import Turns, play
from hotseat.simulation.timeline import timeline
from hotseat.simulation.trace import TraceError, parse

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path
    from typing import TypeAlias

    from hotseat.catalog.catalog import Catalog
    from hotseat.simulation.results import Figures, Run
    from hotseat.simulation.trace import Trace

    Values: TypeAlias = dict[str, float | None]

AS_IT_IS = "unchanged"


@dataclass(frozen=True, slots=True)
class Changes:
    """The changed settings."""

    config: list[Path]
    memory: tuple[str, ...] = ()
    gpus: tuple[str, ...] = ()
    """Each value is one machine: the sizes of its GPUs."""

    @property
    def title(self) -> str:
        """Empty if nothing is changed but the GPUs."""
        return ", ".join([path.name for path in self.config] + [f"memory {size}" for size in self.memory])


def simulate(file: Path, changes: Changes, svg: Path | None, as_json: bool) -> None:
    trace = read_trace(file)
    results = {AS_IT_IS: catalog_of(trace), **(machines if changes.gpus else settings)(trace, changes)}
    runs = {name: play(trace, Turns(Scheduler(catalog))) for name, catalog in results.items()}
    if svg:
        write(svg, timeline(list(runs.items())))
    if changes.gpus:
        show, found = by_machine, {name: {**asdict(machine_figures(run)), **again(run)} for name, run in runs.items()}
    else:
        show, found = side_by_side, {name: {**known(figures(run)), **again(run)} for name, run in runs.items()}
    print(json.dumps(found, indent=2, ensure_ascii=False) if as_json else show(found))


def settings(trace: Trace, changes: Changes) -> dict[str, Catalog]:
    return {changes.title: changed(catalog_of(trace), trace, changes)} if changes.title else {}


def machines(trace: Trace, changes: Changes) -> dict[str, Catalog]:
    """One for each `--gpu`."""
    if changes.config or changes.memory:
        raise Problem("--gpu sets the devices of the trace: leave out --config and --memory")
    tell_unsized([model.name for model in trace.models if model.size is None], "GPU")
    return {text: catalog_of(machine(trace, text)) for text in changes.gpus}


def machine(trace: Trace, text: str) -> Trace:
    """`24GiB,24GiB`: a machine with two GPUs."""
    try:
        sizes = [parse_size(size) / GIB for size in text.split(",")]
    except ValueError as error:
        raise Problem(f"--gpu {text}: {error}") from None
    if not all(sizes):
        raise Problem(f"--gpu {text}: a GPU has more than 0 bytes. Leave it out if the machine has no such GPU.")
    if problems := [*misplaced(trace, sizes)]:
        how = "there is no such device on this machine. Give it a single `size`, or `gpus: auto`, in the trace."
        raise Problem("\n".join(f"--gpu {text}: {problem}, but {how}" for problem in problems))
    return with_gpus(trace, sizes)


def read_trace(file: Path) -> Trace:
    try:
        return parse(file.read_text(encoding="utf-8"))
    except OSError as error:
        raise Problem(f"{file} cannot be read: {error.strerror}") from None
    except UnicodeDecodeError:
        raise Problem(f"{file} is not a trace: it is not UTF-8") from None
    except TraceError as error:
        raise Problem("\n".join(f"{file}, {problem}" for problem in error.problems)) from None


def changed(catalog: Catalog, trace: Trace, changes: Changes) -> Catalog:
    if changes.config:
        catalog = configured(changes.config, trace)
    return with_memory(catalog, budgets(catalog, changes.memory)) if changes.memory else catalog


def configured(files: list[Path], trace: Trace) -> Catalog:
    try:
        catalog = sized(read(files, environ=os.environ, find_devices=devices_for_models).catalog)
    except ConfigError as error:
        raise BadConfig("\n".join(map(str, error.problems))) from None
    missing = [model.name for model in trace.models if model.name not in catalog.models]
    if missing:
        names = ", ".join(missing)
        raise BadConfig(f"the trace has {names}, which {files[0]} does not define: add it there, or record a new trace")
    return catalog


def sized(catalog: Catalog) -> Catalog:
    """A simulation measures nothing: what was measured counts as an estimate. And nothing sleeps."""
    figures = figures_of_this_machine()
    catalog = figures.fill(catalog)
    measured = figures.measured(catalog)
    models = {name: replace(spec, sleep=None) for name, spec in catalog.models.items()}
    footprints = {name: spec.footprint(measured.get(name)) for name, spec in models.items()}
    known = {
        name: replace(models[name], estimated=footprint.memory) for name, footprint in footprints.items() if footprint
    }
    return replace(catalog, models={**models, **known})


def budgets(catalog: Catalog, overrides: tuple[str, ...]) -> dict[str, int]:
    devices = dict(map(device_and_size, overrides))
    known = [place.device for place in catalog.budgets]
    for device in (device for device in devices if known and device and device not in known):
        raise Problem(f"--memory {device}=…: no such device; available: {', '.join(known)}")
    tell_unsized([name for name, spec in catalog.models.items() if spec.footprint(None) is None], "device")
    return devices


def tell_unsized(names: Sequence[str], whole: str) -> None:
    if names:
        print(f"of unknown size, so each counts as a whole {whole}: {', '.join(names)}", file=sys.stderr)


def device_and_size(text: str) -> tuple[str, int]:
    """`gpu0=48GiB`, or `48GiB` for the first device."""
    device, _, size = text.rpartition("=")
    try:
        return device, parse_size(size)
    except ValueError as error:
        raise Problem(f"--memory {text}: {error}") from None


def write(file: Path, text: str) -> None:
    try:
        file.write_text(text, encoding="utf-8")
    except OSError as error:
        raise Problem(f"{file} cannot be written: {error.strerror}") from None


COUNTED = ("served", "unserved", "loads")


def known(found: Figures) -> Values:
    """Without a single response only the counted figures mean something: no wait is not the same as no service."""
    return {name: value if found.served or name in COUNTED else None for name, value in asdict(found).items()}


def again(run: Run) -> Values:
    """Left out where the trace has no tokens."""
    seconds = recomputed_s(run)
    return {} if seconds is None else {"recomputed_s": seconds}


ROWS = (
    ("requests served", "served", ","),
    ("not served", "unserved", ","),
    ("loads", "loads", ","),
    ("computing conversations again, s", "recomputed_s", ",.1f"),
    ("requests per hour", "per_hour", ",.0f"),
    ("mean latency, s", "mean_s", ",.1f"),
    ("p50 latency, s", "p50_s", ",.1f"),
    ("p95 latency, s", "p95_s", ",.1f"),
    ("p99 latency, s", "p99_s", ",.1f"),
    ("longest wait, s", "longest_wait_s", ",.1f"),
    ("slowdown (1 = no waiting)", "slowdown", ",.1f"),
    ("slowdown of the worst-off client", "worst_slowdown", ",.1f"),
    ("stalled (requests waiting, nothing running)", "stalled", ".0%"),
)


def side_by_side(found: Mapping[str, Values]) -> str:
    rows = [
        (title, *(cell(each.get(name), form) for each in found.values())) for title, name, form in in_any(found, ROWS)
    ]
    return table(("", *found), rows)


COLUMNS = (
    ("loads", "loads", ","),
    ("computing again, s", "recomputed_s", ",.1f"),
    ("slowdown", "slowdown", ",.1f"),
    ("p95 latency, s", "p95_s", ",.1f"),
    ("longest wait, s", "longest_wait_s", ",.1f"),
    ("batches, s", "batches_s", ",.0f"),
    ("stalled", "stalled", ".0%"),
    ("not served", "unserved", ","),
)


def by_machine(found: Mapping[str, Values]) -> str:
    columns = in_any(found, COLUMNS)
    rows = [(name, *(cell(each.get(field), form) for _, field, form in columns)) for name, each in found.items()]
    return table(("", *(title for title, _, _ in columns)), rows)


def in_any(found: Mapping[str, Values], figures: Sequence[tuple[str, str, str]]) -> list[tuple[str, str, str]]:
    """Those of the figures that at least one of the runs has."""
    return [each for each in figures if any(each[1] in values for values in found.values())]


def cell(value: float | None, form: str) -> str:
    """Empty, which the table shows as a dash, if nothing was measured."""
    return "" if value is None else f"{value:{form}}"
