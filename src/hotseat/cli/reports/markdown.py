"""PURE: the report of a machine as Markdown."""

from __future__ import annotations

import shlex
from typing import TYPE_CHECKING, Any

from hotseat.cli.devices import use_text
from hotseat.cli.tables import memory_text

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence


def page(facts: dict[str, Any]) -> str:
    return "\n".join([*_about(facts), *_devices(facts["devices"]), *_models(facts["models"]), *_steps(facts)]) + "\n"


def _about(facts: dict[str, Any]) -> Iterator[str]:
    known = facts["versions"]
    yield from ("# hotseat doctor --report", "")
    rows = [("hotseat", known["hotseat"]), ("Python", known["python"]), ("system", known["system"])]
    rows += [(f"driver of {vendor}", version) for vendor, version in known["drivers"].items()]
    rows += known["programs"].items()
    rows += [("server", facts["server"])]
    yield from _table(("what", "value"), rows)


def _devices(devices: Sequence[dict[str, Any]]) -> Iterator[str]:
    yield from ("", "## Devices before", "")
    head = ("device", "name", "total", "used", "unified memory", "reports its users")
    yield from _table(head, map(_device, devices))


def _device(device: dict[str, Any]) -> tuple[str, ...]:
    sizes = (memory_text(device["total"]), memory_text(device["used"]))
    return (device["device"], device["label"], *sizes, _yes(device["unified"]), _yes(device["reports_users"]))


def _models(models: Sequence[dict[str, Any]]) -> Iterator[str]:
    yield from ("", "## Memory", "")
    yield from _table(("model", "estimated", "measured when ready", "hotseat counts"), map(_model, models))
    for model in models:
        yield from ("", f"`{model['model']}`:", "", "```text", shlex.join(model["command"]), "```")


def _model(model: dict[str, Any]) -> tuple[str, ...]:
    estimated, counted = model["estimated"], model["counted"]
    needed = estimated.get("needed")
    guess = _sizes(needed) if needed else estimated["problem"]
    if share := estimated.get("device_share"):
        guess += f", or {share:.0%} of each GPU"
    measured = ", ".join(f"{device} {use_text(use)}" for device, use in model["measured"].items()) or "unknown"
    reserved = f"{_sizes(counted['reserved'] or {})} ({counted['source']})" if counted else "no `devices` configured"
    return (model["model"], guess, measured, reserved)


def _sizes(sizes: dict[str, int]) -> str:
    return ", ".join(f"{where} {memory_text(size)}" for where, size in sizes.items())


def _steps(facts: dict[str, Any]) -> Iterator[str]:
    yield from ("", "## Times", "")
    yield from _table(("step", "seconds", "models afterwards"), map(_step, facts["steps"]))
    if facts["problem"]:
        yield from ("", f"It ended early: {facts['problem']}")


def _step(step: dict[str, Any]) -> tuple[str, ...]:
    phases = ", ".join(f"{name} {phase}" for name, phase in step["phases"].items() if phase != "cold")
    return (step["step"], f"{step['seconds']:.2f}", phases)


def _yes(fact: bool) -> str:
    return "yes" if fact else "no"


def _table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> Iterator[str]:
    yield f"| {' | '.join(head)} |"
    yield f"|{'---|' * len(head)}"
    for row in rows:
        yield f"| {' | '.join(cell.replace('|', '&#124;').replace(chr(10), ' ') for cell in row)} |"
