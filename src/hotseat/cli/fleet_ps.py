"""`hotseat fleet ps`: the models on all hosts, as the queried host knows them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from hotseat.cli.fleet import is_disconnected, warning_of
from hotseat.cli.queries import show_json
from hotseat.cli.tables import duration, memory_text, table

if TYPE_CHECKING:
    from collections.abc import Mapping

    from hotseat.cli.client import Server

MODELS = ("HOST", "MODEL", "PHASE", "IN FLIGHT", "WAITING", "LONGEST WAIT", "MEMORY", "SINCE")


def ps(server: Server, as_json: bool) -> None:
    fleet = server.ask("GET", "/hotseat/fleet")
    models = models_of(fleet)
    if as_json:
        return show_json(models)
    print(table(MODELS, [row(model) for model in models]))
    if is_disconnected(fleet):
        print(f"\n{warning_of(fleet)}")
    return None


def models_of(fleet: Mapping[str, Any]) -> list[dict[str, Any]]:
    """By host, then by model."""
    found = [{"host": host["host"], **each} for host in fleet["hosts"] for each in host["residents"]]
    return sorted(found, key=lambda model: (model["host"], model["model"]))


def row(model: Mapping[str, Any]) -> tuple[str, ...]:
    return (
        model["host"],
        model["model"],
        model["phase"],
        str(model["in_flight"]),
        str(model["waiting"]),
        duration(model["oldest_wait_s"] or None),
        ", ".join(f"{device} {memory_text(size)}" for device, size in model["memory"].items()),
        duration(model["phase_s"]),
    )
