"""Estimates a model's memory from its files and its command line."""

from __future__ import annotations

import logging
import os
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, TypeAlias

from hotseat.catalog.redaction import without
from hotseat.catalog.spec import GpuChoice
from hotseat.catalog.template import PORT, fill_hole
from hotseat.estimates.report import CannotEstimate, Where
from hotseat.identifiers import ANY_GPU, LOCAL_HOST, RAM, Place

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from hotseat.catalog.spec import ModelSpec
    from hotseat.estimates.machine import Files, Gpu
    from hotseat.estimates.report import Estimate
    from hotseat.identifiers import Bytes

    Key: TypeAlias = tuple[object, ...]

log = logging.getLogger(__name__)

RAM_PLACE = Place(LOCAL_HOST, RAM)


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
