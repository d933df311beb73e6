"""Converts llama-swap's priorities to urgencies: higher priority waits less, and every request is served eventually."""

from __future__ import annotations

from typing import TYPE_CHECKING

from hotseat.config.problems import nearest

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping

    from hotseat.config.problems import Path, Problems
    from hotseat.config.schema import Config

PATH: Path = ("routing", "scheduler", "settings", "fifo", "priority")
MOST_STEPS = 6
"""Beyond 64 times the weight, more would only starve the rest."""


def urgencies(config: Config, names: Collection[str], problems: Problems) -> Mapping[str, float]:
    """Urgency by model. Only the order of the priorities counts: people write 1 and 2 as well as 10 and 100."""
    priorities = config.routing.scheduler.settings.fifo.priority
    owner = {alias: name for name, form in config.models.items() for alias in form.aliases}
    found: dict[str, int] = {}
    for name, priority in priorities.items():
        if name in names or name in owner:
            found[owner.get(name, name)] = priority
        else:
            known = [*names, *owner]
            problems.error((*PATH, name), f'no model is called "{name}"', nearest(name, known))
    steps = _steps(found.values())
    return {name: 2.0 ** steps[priority] for name, priority in found.items()}


def _steps(priorities: Iterable[int]) -> dict[int, int]:
    """How many distinct priorities are between each one and 0, the default."""
    levels = sorted({0, *priorities})
    ground = levels.index(0)
    return {level: max(-MOST_STEPS, min(MOST_STEPS, n - ground)) for n, level in enumerate(levels)}
