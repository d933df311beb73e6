"""`hotseat fleet why`: a model on each host of the fleet, and what prevents a host from loading it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from hotseat.cli.client import in_path
from hotseat.cli.queries import show_json

if TYPE_CHECKING:
    from collections.abc import Mapping

    from hotseat.cli.client import Server


def why(server: Server, model: str, as_json: bool) -> None:
    found = server.ask("GET", f"/hotseat/fleet/models/{in_path(model)}")
    if as_json:
        return show_json(found)
    lines = [line for host in found["hosts"] for line in about(found["model"], host)]
    return print("\n".join(lines))


def about(model: str, host: Mapping[str, Any]) -> list[str]:
    """The state first, then what an operator may have to do something about."""
    lines = [state(model, host)]
    if host["obstacle"]:
        lines.append(f"  gets no requests for it: {host['host']} is {host['obstacle']}; {host['remedy']}")
    if host["last_error"] and host["last_error"] != host["why"]:
        lines.append(f"  last failure: {host['last_error']}")
    if differs := host["differs"]:
        lines.append(f"  defined differently: {differs['definition']}; {other(differs)}")
    return lines


def state(model: str, host: Mapping[str, Any]) -> str:
    name, phase = host["host"], host["phase"] or "not loaded"
    if not host["has_answered"]:
        return f"{name}: {model} is {phase}; {host['why']}, so the reason is unknown"
    if not host["is_configured"] and host["phase"] is None:
        return f"{name}: {model} is not in its configuration"
    return f"{name}: {model} is {phase}: {host['why']}"


def other(differs: Mapping[str, Any]) -> str:
    return f"on {differs['compared_with']}: {differs['other_definition']}"
