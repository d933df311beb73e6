"""`hotseat devices`: the memory and GPUs of this machine, and which models of a running hotseat use them."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from hotseat.catalog.spec import NOTHING
from hotseat.cli.problems import MISREAD, Problem
from hotseat.cli.queries import show_json
from hotseat.cli.tables import memory_text, table
from hotseat.config.units import is_loopback
from hotseat.memory.machine import find_machine
from hotseat.memory.measurement import Sensors

if TYPE_CHECKING:
    from collections.abc import Mapping

    from hotseat.cli.client import Server
    from hotseat.identifiers import DeviceName
    from hotseat.memory.measurement import Reading

UNKNOWN = "unknown"


def devices(server: Server, as_json: bool) -> None:
    """Measure now, whether or not hotseat runs; the models are those of a hotseat on this machine."""
    machine = find_machine()
    pids, budgets = status_here(server) or (None, {})
    reading = machine.sample(tuple((pids or {}).values()))
    seen = [described(name, machine.labels[name], reading, pids, budgets.get(name)) for name in reading.devices]
    loads = machine.sensors()
    if as_json:
        return show_json([{**device, **asdict(loads.get(device["device"], Sensors()))} for device in seen])
    models = () if pids is None else ("FOR MODELS", "MODELS")
    head = ("DEVICE", "TOTAL", "USED", "FREE", *(("LOAD",) if loads else ()), *models, "WHAT")
    return print(table(head, [row(device, loads) for device in seen]))


def status_here(server: Server) -> tuple[dict[str, int], dict[DeviceName, int]] | None:
    """Pids by model, and budgets by device.

    None if no hotseat answers, or one on another machine, whose pids and devices mean nothing here.
    """
    host = urlsplit(server.url if "://" in server.url else f"http://{server.url}").hostname or ""
    if not is_loopback(host):
        return None
    try:
        status = server.ask("GET", "/hotseat/models")
        pids = {model["model"]: model["pid"] for model in status["models"] if model["pid"]}
        return pids, {device["device"]: device["available"] for device in status["devices"]}
    except (Problem, *MISREAD):  # it may be another program
        return None


def described(
    name: DeviceName, label: str, reading: Reading, pids: Mapping[str, int] | None, for_models: int | None = None
) -> dict[str, Any]:
    """`for_models` is how much of it models may use now; None: it has no budget."""
    seen = reading.devices[name]
    memory = {"total": seen.total, "used": seen.used, "free": seen.free}
    if pids is None:
        return {"device": name, "label": label, **memory}
    models = None if name in reading.silent else uses_of(name, reading, pids)
    return {"device": name, "label": label, **memory, "for_models": for_models, "models": models}


def uses_of(name: DeviceName, reading: Reading, pids: Mapping[str, int]) -> dict[str, dict[str, int] | None]:
    """Memory by user of the device; None for a model whose server's processes cannot be seen."""
    uses = {model: reading.processes.get(pid, {}).get(name) for model, pid in pids.items()}
    unseen: dict[str, None] = {model: None for model, pid in pids.items() if pid in reading.elsewhere}
    return {model: asdict(use) for model, use in uses.items() if use} | unseen


def row(device: dict[str, Any], loads: Mapping[DeviceName, Sensors] = NOTHING) -> tuple[str, ...]:
    """`loads`: what drivers report of the GPUs; empty: there is no such column."""
    models = (budget_text(device["for_models"]), models_text(device["models"])) if "models" in device else ()
    load = (load_text(loads.get(device["device"], Sensors())),) if loads else ()
    sizes = (memory_text(device[key]) for key in ("total", "used", "free"))
    return (device["device"], *sizes, *load, *models, device["label"])


def load_text(sensors: Sensors) -> str:
    """What the driver does not report is left out."""
    use = None if sensors.utilization is None else sensors.utilization * 100
    figures = ((use, "%"), (sensors.celsius, "°C"), (sensors.watts, "W"))
    return ", ".join(f"{value:.0f} {unit}" for value, unit in figures if value is not None)


def budget_text(for_models: int | None) -> str:
    return "" if for_models is None else memory_text(for_models)


def models_text(models: dict[str, dict[str, int] | None] | None) -> str:
    if models is None:
        return UNKNOWN
    return ", ".join(f"{model} {use_text(use)}" for model, use in models.items())


def use_text(use: dict[str, int] | None) -> str:
    """File-backed memory is shown apart: the kernel may reclaim it, at the price of reading it again."""
    if use is None:
        return UNKNOWN
    files = f" + {memory_text(use['file_backed'])} of files" if use["file_backed"] else ""
    return memory_text(use["anonymous"]) + files
