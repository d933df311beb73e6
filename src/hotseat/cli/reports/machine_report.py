"""`hotseat doctor --report`: what a machine with GPUs does with a few models, as text for an issue."""

from __future__ import annotations

import json
import os
import time
from contextlib import nullcontext
from typing import TYPE_CHECKING

from hotseat.catalog.redaction import redacted
from hotseat.cli.doctor import server_of, understood
from hotseat.cli.local_models import is_local
from hotseat.cli.problems import BadConfig, Problem
from hotseat.cli.reports.facts import devices, versions
from hotseat.cli.reports.markdown import page
from hotseat.cli.reports.mask import Mask
from hotseat.cli.reports.trial import Trial
from hotseat.cli.reports.trial_server import is_running, started
from hotseat.cli.tables import without_escapes_but_lines
from hotseat.errors import UnknownModel
from hotseat.identifiers import ModelName
from hotseat.memory.machine import find_machine

if TYPE_CHECKING:
    from collections.abc import Sequence
    from contextlib import AbstractContextManager
    from pathlib import Path

    from hotseat.cli.client import Server
    from hotseat.config.load import Loaded
    from hotseat.identifiers import Instant, Seconds

LONGEST_S: Seconds = 285.0
"""All together less than five minutes."""


def report(config: Sequence[Path], url: str | None, api_key: str | None, models: Sequence[str], as_json: bool) -> int:
    """1 if something could not be measured: the report says what."""
    until = time.monotonic() + LONGEST_S
    loaded = configuration(config)
    named = [own_name(loaded, model) for model in models]
    running = server_of(loaded.settings, api_key, url)
    if running.url != server_of(loaded.settings, api_key).url and not is_local(running):
        raise Problem(f"the report measures this machine, and {url} is another; run it there")
    is_ours = not is_running(running)
    with serving(loaded, config, running, is_ours, until) as server:
        machine = find_machine()
        before = devices(machine, machine.sample(()))
        trial = Trial(server, machine, until, is_ours)
        trial.run(named)
    mask = Mask(loaded, os.environ, api_key)
    facts = {
        "versions": versions(loaded),
        "server": "started for this report" if is_ours else "the running one",
        "devices": before,
        "models": [{**model, "command": command_of(loaded, model["model"])} for model in trial.models],
        "steps": trial.steps,
        "problem": mask.output(trial.problem),
    }
    shown = mask.tree(facts)
    text = json.dumps(shown, indent=2) + "\n" if as_json else page(shown)
    print(without_escapes_but_lines(text), end="")
    return 1 if trial.problem else 0


def own_name(loaded: Loaded, model: str) -> str:
    try:
        return loaded.catalog.resolve(model).name
    except UnknownModel as unknown:
        raise Problem(unknown.message) from None


def command_of(loaded: Loaded, model: str) -> list[str]:
    """Empty: the running server has another configuration."""
    spec = loaded.catalog.models.get(ModelName(model))
    return redacted(spec.recipe.argv) if spec else []


def configuration(config: Sequence[Path]) -> Loaded:
    loaded, problems = understood(config)
    if loaded is None:
        raise BadConfig("\n".join(["the configuration cannot be used:", *(each.message for each in problems)]))
    return loaded


def serving(
    loaded: Loaded, config: Sequence[Path], running: Server, is_ours: bool, until: Instant
) -> AbstractContextManager[Server]:
    if not is_ours:
        return nullcontext(running)
    if loaded.settings.fleet:
        raise Problem("a server that is started for the report would join the fleet; start `hotseat serve` yourself")
    return started(config, running.api_key, loaded.settings.tls is not None, until)
