"""The memory of models: as estimated from their files and command lines, and as their last few launches took it.

A footprint belongs to a recipe, not to a name: another context size is another footprint, another name is not.
"""

from __future__ import annotations

import hashlib
import json
import logging
import os
from dataclasses import asdict, dataclass, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, NewType, Protocol, TypeAlias

from hotseat.catalog.redaction import without
from hotseat.catalog.spec import NOTHING, GpuChoice
from hotseat.catalog.template import PORT, fill_hole
from hotseat.estimates.files import Disk, folders_in
from hotseat.estimates.machine import Gpu
from hotseat.estimates.report import Backing, CannotEstimate, Where
from hotseat.identifiers import ANY_GPU, LOCAL_HOST, RAM, DeviceName, Place
from hotseat.memory.measurement import Use, merged, on_any_gpu
from hotseat.threads import within

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterator, Mapping

    from hotseat.catalog.catalog import Catalog
    from hotseat.catalog.spec import LaunchRecipe, ModelSpec
    from hotseat.estimates.machine import Files
    from hotseat.estimates.report import Estimate
    from hotseat.identifiers import Bytes, LaunchId, MeasuredMemory, Seconds
    from hotseat.memory.machine import Machine

    Key: TypeAlias = tuple[object, ...]

log = logging.getLogger(__name__)
LOOK_S: Seconds = 10.0
"""For the files of one model, which else has no estimate until the next reload."""
RAM_PLACE = Place(LOCAL_HOST, RAM)
RecipeKey = NewType("RecipeKey", str)
Uses: TypeAlias = "Mapping[DeviceName, Use]"
LIVES = 5
"""How many launches are remembered, so that an old peak, perhaps of an older server, is forgotten."""
MOST_BYTES = 1 << 60
"""A stored figure that is more than any machine has is corrupt."""
WORTH_KEEPING = 1.01
"""Growth below this is not stored: a server in use grows by a page now and then."""


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


class Estimates:
    """Caches estimates until a command line, an environment or a file changes."""

    def __init__(self, files: Files, environ: Mapping[str, str], gpu: Gpu) -> None:
        self._files, self._environ, self._gpu = files, dict(environ), gpu
        self._known: dict[Key, Estimate | None] = {}

    def of(self, spec: ModelSpec) -> Estimate | None:
        """Reads files: not for the event loop. Never raises: a model without a figure takes a whole device."""
        key = (spec.recipe.argv, spec.recipe.env, *stamps(spec.recipe.argv))
        if key not in self._known:
            self._known[key] = self._guess(spec)
        return self._known[key]

    def explained(self, spec: ModelSpec) -> Estimate:
        """Line by line and without secrets. Raises CannotEstimate, which says why; reads files."""
        from hotseat.estimates.estimate import estimate  # a start without `devices` needs no estimate

        argv, secrets = tuple(fill_hole(word, PORT, 0) for word in spec.recipe.argv), spec.recipe.secrets
        try:
            found = estimate(argv, self._files, env={**self._environ, **dict(spec.recipe.env)}, gpu=self._gpu)
        except CannotEstimate as problem:
            raise CannotEstimate(without(problem.message, secrets)) from None
        return replace(found, lines=tuple(replace(line, what=without(line.what, secrets)) for line in found.lines))

    def _guess(self, spec: ModelSpec) -> Estimate | None:
        try:
            return self.explained(spec)
        except CannotEstimate as problem:
            level = logging.INFO if spec.memory is None else logging.DEBUG  # beside a declared figure nobody misses it
            log.log(level, "memory cannot be estimated model=%s reason=%r", spec.name, problem.message)
        except Exception:  # an unforeseen kind of file must not prevent startup
            log.exception("memory could not be estimated model=%s", spec.name)
        return None


def stamps(argv: tuple[str, ...]) -> Iterator[tuple[str, int, int]]:
    """Path, modification time and size of each file that a command line names."""
    for word in argv:
        try:
            status = os.stat(word)
        except (OSError, ValueError):
            continue
        yield word, status.st_mtime_ns, status.st_size


@dataclass(frozen=True, slots=True)
class Placing:
    """PURE: assigns the parts of an estimate to places: a device's to the first card with a budget, or to no particular
    card if they are chosen at the start; the host's to RAM.

    Parts on a place without a budget are not counted. If the GPU uses the RAM, one budget covers both.
    """

    budgets: Mapping[Place, Bytes]
    totals: Mapping[Place, Bytes]
    """The total memory of each device."""
    is_unified: bool = False

    def of(self, guess: Estimate, gpus: GpuChoice | None = None) -> dict[Place, Bytes]:
        card = ANY_GPU if gpus else next((place for place in self.budgets if place != RAM_PLACE), None)
        host = guess.needed(Where.HOST)
        found = {RAM_PLACE: host} if RAM_PLACE in self.budgets else {}
        if card is None:
            return found
        taken = self._on(gpus or GpuChoice(1, (card,)), guess)
        return {card: taken + (host if self.is_unified else 0), **found}

    def _on(self, gpus: GpuChoice, guess: Estimate) -> Bytes:
        """Some servers take a fixed share of each card, whatever they need: the largest cards count."""
        if guess.device_share is None:
            return guess.needed(Where.DEVICE)
        sizes = sorted((self.totals.get(card, self.budgets[card]) for card in gpus.among), reverse=True)
        return int(guess.device_share * sum(sizes[: gpus.count or 1]))


class Keeps(Protocol):
    """Stores facts across restarts."""

    def recall(self) -> Mapping[str, Any]: ...

    def keep(self, key: str, fact: Any) -> None: ...


def key_of(recipe: LaunchRecipe) -> RecipeKey:
    """The same for the same command and environment, across restarts."""
    text = json.dumps([recipe.argv, recipe.env])
    return RecipeKey(hashlib.sha256(text.encode()).hexdigest()[:32])


class Footprints:
    def __init__(self, learned_store: Keeps) -> None:
        self._learned_store = learned_store
        self.recall()

    def recall(self) -> None:
        """What is stored replaces what is known: at a restart the previous process has measured meanwhile."""
        facts = {RecipeKey(key): fact for key, fact in self._learned_store.recall().items()}
        self._lives = {key: lives_in(fact) for key, fact in facts.items()}
        self._launches = {key: facts[key].get("launch") for key, lives in self._lives.items() if lives}
        """The launch of the last entry in `_lives`."""
        self._written: dict[RecipeKey, Uses] = {}
        """What is stored of that launch; missing: it may be another hotseat's, whose launches count from one, too."""

    def peak(self, key: RecipeKey, counted: Callable[[Uses], Uses] = dict) -> Uses | None:
        """The peak on each device over the last launches, each `counted` in a way; None: never measured."""
        lives = self._lives.get(key)
        return merged(*map(counted, lives)) if lives else None

    def note(self, key: RecipeKey, launch: LaunchId, uses: Uses, *, is_adopted: bool = False) -> bool:
        """Record what a launch takes; True if that is a new peak of this launch that was worth storing.

        `is_adopted`: the previous process has started it, and may have noted it.
        """
        if not uses:
            return False
        lives = self._lives.setdefault(key, [])
        if self._launches.get(key) != launch or not (is_adopted or key in self._written):
            self._launches[key], self._written[key] = launch, {}
            lives.append({})
            del lives[:-LIVES]
        before = self._written.setdefault(key, lives[-1])
        lives[-1] = merged(lives[-1], uses)
        if not has_grown(before, lives[-1]):
            return False
        self._written[key] = lives[-1]
        self._learned_store.keep(key, {"launch": launch, "lives": [as_plain(life) for life in lives]})
        return True


def has_grown(before: Uses, now: Uses) -> bool:
    return any(use.total > WORTH_KEEPING * before.get(device, Use()).total for device, use in now.items())


def as_plain(uses: Uses) -> dict[str, Any]:
    """For JSON."""
    return {device: asdict(use) for device, use in uses.items()}


def _use(anonymous: object = 0, file_backed: object = 0) -> Use:
    """Raises TypeError if the values are not sizes."""
    if type(anonymous) is not int or type(file_backed) is not int or max(anonymous, file_backed) > MOST_BYTES:
        raise TypeError("no size")
    return Use(anonymous, file_backed)


def lives_in(fact: Any) -> list[Uses]:
    """The stored launches, as far as they are valid."""
    try:
        return [{DeviceName(device): _use(**use) for device, use in life.items()} for life in fact["lives"]]
    except (LookupError, TypeError, AttributeError):
        return []
