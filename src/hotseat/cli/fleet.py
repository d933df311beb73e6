"""`hotseat fleet`: hosts, models and requests as the queried host knows them, and what can be requested of hosts."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

from hotseat.cli.client import in_path, message_of
from hotseat.cli.queries import show_json
from hotseat.cli.tables import duration, memory_text, table

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from hotseat.cli.client import Server

HOSTS = ("HOST", "STATE", "ORDERS", "FREE", "MODELS", "IN FLIGHT", "WAITING", "LABELS", "CONFIG", "VERSION", "ADDRESS")
BROKEN = ("FROM", "TO", "NOT REACHED BECAUSE")
CLAIMS = ("MODEL", "WILL LOAD ON", "BECAUSE")
ABSENT = ("ABSENT HOST", "WHEN IT JOINS")
MISSING = ("HOST", "MODEL", "MISSING FILE")
MOST_COLUMNS = 8
"""In a larger fleet only the broken paths are listed: a table of all would be wider than a terminal."""
CERTIFICATE_S, CLOCK_S = 14 * 86400.0, 5.0
"""What is left of a certificate, and how far a clock is off, when a line warns of it."""
STALE = "Other hosts are shown with their last known state, and nothing can be changed or moved."
MODELS = ("HOST", "MODEL", "PHASE", "IN FLIGHT", "WAITING", "LONGEST WAIT", "MEMORY", "SINCE")
REQUESTS = ("HOST", "ASKED", "TICKET", "MODEL", "CLIENT", "STATE", "WAITED", "SINCE", "REQUEST")


def status(server: Server, as_json: bool) -> None:
    fleet = server.ask("GET", "/hotseat/fleet")
    if as_json:
        return show_json(fleet)
    print(table(HOSTS, [host_row(host) for host in fleet["hosts"]]))
    if 1 < len(fleet["hosts"]) <= MOST_COLUMNS:
        print("\n" + table(*reached(fleet)))
    if fleet["broken_paths"]:
        print("\n" + table(BROKEN, [(path["host"], path["to"], path["reason"]) for path in fleet["broken_paths"]]))
    elif len(fleet["hosts"]) > MOST_COLUMNS:
        print("\nNo host reports that it cannot reach another one.")
    if warnings := [warning for host in fleet["hosts"] for warning in path_warnings(host, fleet["host"])]:
        print("\n" + "\n".join(warnings))
    if fleet["claims"]:
        claims = [(claim["model"], claim["host"], claim["reason"]) for claim in fleet["claims"]]
        print("\n" + table(CLAIMS, claims))
    if missing := [row for host in fleet["hosts"] for row in missing_rows(host)]:
        print("\n" + table(MISSING, missing))
    if fleet["absent"]:
        print("\n" + table(ABSENT, [(host["host"], orders(host)) for host in fleet["absent"]]))
    if is_disconnected(fleet):
        print(f"\n{warning_of(fleet)}")
    return None


def reached(fleet: Mapping[str, Any]) -> tuple[tuple[str, ...], list[tuple[str, ...]]]:
    """Which host reaches which, as each said last; one that is disconnected does not hear what the others say now."""
    names = [host["host"] for host in fleet["hosts"]]
    broken = {(path["host"], path["to"]) for path in fleet["broken_paths"]}

    def cell(here: str, to: str) -> str:
        if here == to:
            return "-"
        if is_disconnected(fleet) and here != fleet["host"]:
            return "?"
        return "no" if (here, to) in broken else "yes"

    return ("FROM", *(f"TO {name}" for name in names)), [(here, *(cell(here, to) for to in names)) for here in names]


def is_disconnected(fleet: Mapping[str, Any]) -> bool:
    return bool(fleet["connection"] == "disconnected")


def warning_of(fleet: Mapping[str, Any]) -> str:
    return f"{fleet['host']} is disconnected from the fleet: {fleet['problem'].removesuffix('.')}. {STALE}"


def host_row(host: dict[str, Any]) -> tuple[str, ...]:
    return (
        host["host"],
        state(host),
        orders(host),
        ", ".join(
            f"{each['device']} {memory_text(each['free'])} of {memory_text(each['budget'])}" for each in host["devices"]
        ),
        ", ".join(f"{each['model']} ({each['phase']})" for each in host["residents"]),
        str(host["in_flight"]),
        str(host["waiting"]),
        ", ".join(f"{label}={value}" for label, value in sorted(host["labels"].items())),
        host["config_digest"],
        host["version"],
        host["address"],
    )


def orders(host: dict[str, Any]) -> str:
    return ", ".join(order for order in ("cordoned", "drained") if host[order])


def missing_rows(host: dict[str, Any]) -> list[tuple[str, ...]]:
    return [(host["host"], *each) for each in sorted(host["missing_files"].items())]


def state(host: dict[str, Any]) -> str:
    """`this host`, or how long ago the host was last seen."""
    if host["state"] == "this_host":
        return "this host"
    seen = f"last seen {duration(host['last_seen_s'])} ago"
    problem = f" ({host['problem']})" if host.get("problem") else ""
    return seen if host["state"] == "reachable" else f"{host['state']}{problem}, {seen}"


def path_warnings(host: dict[str, Any], me: str) -> Iterator[str]:
    ends, ahead_s = host["certificate_ends"], host["clock_ahead_s"]
    if ends is not None and (left_s := ends - time.time()) < CERTIFICATE_S:
        yield f"The certificate of {host['host']} ends in {duration(max(0, left_s))}. Renew it, and reload that host."
    if ahead_s is not None and abs(ahead_s) > CLOCK_S:
        yield f"The clock of {host['host']} differs by {ahead_s:+g} s from that of {me}. Synchronize both with NTP."


def give(server: Server, host: str, order: str) -> None:
    print(message_of(server.wait("PUT", f"/hotseat/fleet/hosts/{in_path(host)}/{order}")))


def take_back(server: Server, host: str, order: str) -> None:
    print(message_of(server.wait("DELETE", f"/hotseat/fleet/hosts/{in_path(host)}/{order}")))


def move(server: Server, model: str, host: str) -> None:
    print(message_of(server.wait("POST", f"/hotseat/fleet/models/{in_path(model)}/move", to=host)))


def ps(server: Server, as_json: bool) -> None:
    fleet = server.ask("GET", "/hotseat/fleet")
    models = models_of(fleet)
    if as_json:
        return show_json(models)
    print(table(MODELS, [model_row(model) for model in models]))
    if is_disconnected(fleet):
        print(f"\n{warning_of(fleet)}")
    return None


def models_of(fleet: Mapping[str, Any]) -> list[dict[str, Any]]:
    """By host, then by model."""
    found = [{"host": host["host"], **each} for host in fleet["hosts"] for each in host["residents"]]
    return sorted(found, key=lambda model: (model["host"], model["model"]))


def model_row(model: Mapping[str, Any]) -> tuple[str, ...]:
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


def requests(server: Server, as_json: bool) -> None:
    found = server.ask("GET", "/hotseat/fleet/requests")
    if as_json:
        return show_json(found)
    print(table(REQUESTS, [request_row(request) for request in found["in_progress"]]))
    if found["silent"]:
        print(f"\n{'; '.join(found['problems'].values())}: requests that only these hosts know are missing")
    return None


def request_row(request: Mapping[str, Any]) -> tuple[str, ...]:
    return (
        request["host"],
        request["asked"],
        str(request["ticket"] or ""),
        request["model"],
        request["client"],
        request["state"],
        duration(request["waited_s"]),
        duration(request["seconds"]),
        f"{request['method']} {request['path']}",
    )


def why(server: Server, model: str, as_json: bool) -> None:
    found = server.ask("GET", f"/hotseat/fleet/models/{in_path(model)}")
    if as_json:
        return show_json(found)
    lines = [line for host in found["hosts"] for line in about(found["model"], host)]
    return print("\n".join(lines))


def about(model: str, host: Mapping[str, Any]) -> list[str]:
    """The state first, then what an operator may have to do something about."""
    lines = [state_of_model(model, host)]
    if host["obstacle"]:
        lines.append(f"  gets no requests for it: {host['host']} is {host['obstacle']}; {host['remedy']}")
    if host["last_error"] and host["last_error"] != host["why"]:
        lines.append(f"  last failure: {host['last_error']}")
    if differs := host["differs"]:
        lines.append(f"  defined differently: {differs['definition']}; {other_definition(differs)}")
    return lines


def state_of_model(model: str, host: Mapping[str, Any]) -> str:
    name, phase = host["host"], host["phase"] or "not loaded"
    if not host["has_answered"]:
        return f"{name}: {model} is {phase}; {host['why']}, so the reason is unknown"
    if not host["is_configured"] and host["phase"] is None:
        return f"{name}: {model} is not in its configuration"
    return f"{name}: {model} is {phase}: {host['why']}"


def other_definition(differs: Mapping[str, Any]) -> str:
    return f"on {differs['compared_with']}: {differs['other_definition']}"
