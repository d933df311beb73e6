"""The memory of models as estimated from their files, and as earlier runs measured it."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from hotseat.catalog.spec import NOTHING
from hotseat.estimates.files import Disk, folders_in
from hotseat.estimates.machine import Gpu
from hotseat.estimates.report import Backing, CannotEstimate, Where
from hotseat.hardware.footprints import key_of
from hotseat.hardware.measurement import on_any_gpu
from hotseat.identifiers import LOCAL_HOST, RAM, Place
from hotseat.memory.estimated import Estimates, Placing
from hotseat.threads import within

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Mapping

    from hotseat.catalog.catalog import Catalog
    from hotseat.catalog.spec import ModelSpec
    from hotseat.estimates.report import Estimate
    from hotseat.hardware.footprints import Footprints, RecipeKey
    from hotseat.hardware.machine import Machine
    from hotseat.hardware.measurement import Use
    from hotseat.identifiers import Bytes, DeviceName, MeasuredMemory, Seconds


LOOK_S: Seconds = 10.0
"""For the files of one model, which else has no estimate until the next reload."""


class Figures:
    """Fills catalogs, and subtracts reclaimable pages from measured figures."""

    def __init__(self, footprints: Footprints, environ: Mapping[str, str], machine: Callable[[], Machine]) -> None:
        self._footprints, self._environ, self._machine = footprints, environ, machine
        self._guesses: dict[Gpu, Estimates] = {}
        self._read_once: dict[RecipeKey, Bytes] = {}
        """Pages of files that a server reads only to load: resident while memory is free, and never needed again."""

    def fill(self, catalog: Catalog) -> Catalog:
        """The catalog with an estimate of every model that can have one.

        Reads files and queries drivers, so it must not run on the event loop.
        """
        if not catalog.budgets:
            return catalog
        machine, budgets = self._machine(), catalog.budgets
        totals = totals_of(machine)
        guesses = self._guesses_with({**totals, **budgets})
        placing = Placing(budgets, totals, is_unified=is_unified(budgets, machine.borrowers))
        models = {name: self._filled(spec, guesses, placing) for name, spec in catalog.models.items()}
        return replace(catalog, models=models)

    def measured(self, catalog: Catalog) -> MeasuredMemory:
        """What earlier processes of these recipes took, as far as any was measured; `fill` the catalog first."""
        if not catalog.budgets:
            return NOTHING
        peaks = {name: self.peak(spec, catalog.budgets) for name, spec in catalog.models.items()}
        return {name: peak for name, peak in peaks.items() if peak}

    def explain(self, spec: ModelSpec, budgets: Mapping[Place, Bytes]) -> Estimate:
        """The estimate of one model, also if another figure counts. Raises CannotEstimate.

        Reads files and queries drivers, so it must not run on the event loop.
        """
        guesses = self._guesses_with({**totals_of(self._machine()), **budgets})
        found = within(LOOK_S, spec.name, folders_in(spec.recipe.argv), partial(guesses.explained, spec))
        if found is None:
            raise CannotEstimate("the disk with its files does not respond")
        return found

    def peak(self, spec: ModelSpec, budgets: Mapping[Place, Bytes]) -> dict[Place, Bytes]:
        """The measured peak on places with a budget, without reclaimable pages.

        A model whose cards are chosen at each start may have had others in each launch, so launches are folded first.
        """
        key = key_of(spec.recipe)
        read_once = self._read_once.get(key, 0)
        counted = partial(with_budget, budgets=budgets, is_folded=spec.is_placed_at_start)
        seen = self._footprints.peak(key, counted) or {}
        return {Place(LOCAL_HOST, name): needed(use, read_once) for name, use in seen.items()}

    def _guesses_with(self, places: Collection[Place]) -> Estimates:
        gpu = Gpu.SOME if any(place.device != RAM for place in places) else Gpu.NONE
        if gpu not in self._guesses:
            self._guesses[gpu] = Estimates(Disk(Path.cwd()), self._environ, gpu)
        return self._guesses[gpu]

    def _filled(self, spec: ModelSpec, guesses: Estimates, placing: Placing) -> ModelSpec:
        guessed: dict[Place, Bytes] = {}
        if guess := within(LOOK_S, spec.name, folders_in(spec.recipe.argv), partial(guesses.of, spec)):
            guessed = placing.of(guess, spec.gpus if spec.is_placed_at_start else None)
            self._read_once[key_of(spec.recipe)] = guess.backed(Where.HOST, Backing.READ_ONCE)
        if not guess and spec.estimated is None:
            return spec
        per_gpu = guess.per_further_device if guess and spec.gpus else 0
        return replace(spec, estimated=guessed or None, per_gpu=per_gpu)


def totals_of(machine: Machine) -> dict[Place, Bytes]:
    """The total memory of each device."""
    return {Place(LOCAL_HOST, name): reading.total for name, reading in machine.devices().items()}


def with_budget(
    uses: Mapping[DeviceName, Use], budgets: Collection[Place], *, is_folded: bool
) -> dict[DeviceName, Use]:
    """PURE: what one launch took of devices with a budget; folded, cards count together."""
    counted = {device: use for device, use in uses.items() if Place(LOCAL_HOST, device) in budgets}
    return on_any_gpu(counted) if is_folded else counted


def needed(use: Use, read_once: Bytes) -> Bytes:
    """PURE: a device's memory is all anonymous, so nothing is subtracted there."""
    return use.anonymous + max(0, use.file_backed - read_once)


def is_unified(budgets: Collection[Place], borrowers: Collection[DeviceName]) -> bool:
    """PURE: whether the only budget is that of a card that uses the RAM."""
    return len(budgets) == 1 and next(iter(budgets)).device in borrowers
