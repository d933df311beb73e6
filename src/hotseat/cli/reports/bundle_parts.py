"""The files of a debug bundle. What cannot be had is named, with the reason."""

from __future__ import annotations

import json
import os
import re
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from hotseat.catalog.redaction import HIDDEN
from hotseat.cli.client import Refused
from hotseat.cli.doctor import examined, finding_json, understood
from hotseat.cli.known_models import is_local
from hotseat.cli.problems import Problem, Unreachable
from hotseat.cli.reports.facts import devices, versions
from hotseat.cli.reports.mask import Mask
from hotseat.cli.shared_options import USUAL_CONFIG
from hotseat.config.effective import resolved
from hotseat.hardware.machine import find_machine

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from hotseat.cli.client import Server

OWN_LINES, MODEL_LINES = 2000, 500
MOST_MODELS = 50
LARGEST = 1 << 20
"""Bytes of one file; of a larger one the end is kept."""
CONFIGURATION = "the configuration, without the values of env"


@dataclass(frozen=True, slots=True)
class Part:
    name: str
    what: str
    data: bytes


@dataclass(frozen=True, slots=True)
class Missing:
    name: str
    why: str


def parts(server: Server, config: Sequence[Path]) -> Iterator[Part | Missing]:
    """`config` are the files that the command line names; without them, those of the running server."""
    sources = config or files_served(server) or [USUAL_CONFIG]
    loaded, _ = understood(sources)
    mask = Mask(loaded, os.environ, server.api_key)
    machine = find_machine()
    findings = [finding_json(finding) for finding in examined(sources, server.api_key)]
    yield as_json(mask, "versions.json", "versions of programs, packages and drivers", versions(loaded))
    yield as_json(mask, "devices.json", "memory of the devices", devices(machine, machine.sample(())))
    yield as_json(mask, "doctor.json", "findings of `hotseat doctor`", findings)
    try:
        yield state(mask, server, "config.json", "/hotseat/config", CONFIGURATION)
    except Unreachable:
        if loaded:
            yield as_json(mask, "config.json", CONFIGURATION, without_env({"resolved": resolved(loaded)}))
    try:
        yield from of_server(mask, server)
    except Unreachable as problem:
        yield Missing("state, metrics and logs", str(problem))


def of_server(mask: Mask, server: Server) -> Iterator[Part | Missing]:
    """Raises Unreachable. What the key may not see, and what there is not, is missing."""
    yield state(mask, server, "models.json", "/hotseat/models", "state of every model")
    yield state(mask, server, "queue.json", "/hotseat/queue", "waiting requests and their reasons")
    yield state(mask, server, "fleet.json", "/hotseat/fleet", "hosts of the fleet")
    yield or_missing("metrics.txt", lambda: as_text("metrics.txt", "metrics", mask.text(server.text("/metrics"))))
    yield from logs(mask, server)


def state(mask: Mask, server: Server, name: str, path: str, what: str) -> Part | Missing:
    return or_missing(name, lambda: as_json(mask, name, what, without_env(without_clients(server.ask("GET", path)))))


def files_served(server: Server) -> list[Path]:
    """The configuration files of a server on this machine, as far as this user can read them."""
    try:
        shown = server.ask("GET", "/hotseat/config")["resolved"] if is_local(server) else {}
    except (Problem, ValueError, LookupError, TypeError):  # it may be another program
        return []
    files = [Path(shown["workingDir"]) / file for file in shown.get("files", ())]
    return [file for file in files if os.access(file, os.R_OK)]


def logs(mask: Mask, server: Server) -> Iterator[Part | Missing]:
    try:
        own = server.text("/hotseat/logs", own="true", lines=OWN_LINES)
        yield as_text("logs/hotseat.txt", f"the last {OWN_LINES} lines of hotseat's log", mask.text(own))
        models = [model["model"] for model in server.ask("GET", "/hotseat/models")["models"]][:MOST_MODELS]
        for number, model in enumerate(models):
            if said := server.text("/hotseat/logs", model=model, lines=MODEL_LINES):
                name = f"logs/{number}-{re.sub(r'[^A-Za-z0-9.-]', '_', model)}.txt"
                yield as_text(name, f"the last {MODEL_LINES} lines of {model}", mask.output(said))
    except (Refused, ValueError, LookupError) as problem:
        yield Missing("logs", str(problem))


# Parts


def or_missing(name: str, make: Callable[[], Part]) -> Part | Missing:
    try:
        return make()
    except (Refused, ValueError) as problem:
        return Missing(name, str(problem))


def as_json(mask: Mask, name: str, what: str, value: Any) -> Part:
    return as_text(name, what, json.dumps(mask.tree(value), indent=1))


def as_text(name: str, what: str, text: str) -> Part:
    return Part(name, what, text.encode("utf-8", "replace")[-LARGEST:])


def without_env(report: dict[str, Any]) -> dict[str, Any]:
    for model in report.get("resolved", {}).get("models", {}).values():
        model["env"] = dict.fromkeys(model["env"], HIDDEN)
    return report


def without_clients(state: dict[str, Any]) -> dict[str, Any]:
    """Their names are nobody else's business."""
    waiting = [{**ticket, "client": HIDDEN} for ticket in state.get("waiting", ())]
    return {**state, "waiting": waiting} if waiting else state
