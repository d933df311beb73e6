"""The commands that query a running server and print the answer for people or as JSON."""

from __future__ import annotations

import json
import sys
from datetime import datetime
from typing import TYPE_CHECKING, Any

from hotseat.cli.client import Refused, in_path, message_of
from hotseat.cli.problems import BadConfig
from hotseat.cli.tables import duration, memory_text, table
from hotseat.identifiers import ANY_GPU

if TYPE_CHECKING:
    from collections.abc import Sequence

    from hotseat.cli.client import Server

STOPPABLE = ("loading", "ready", "draining", "unloading", "asleep")
NOT_RUNNING = 409
UNKNOWN = 404
FORBIDDEN = 403
ALIVE = ("MODEL", "PHASE", "PID", "PORT", "IN FLIGHT", "WAITING", "MEMORY", "TTL LEFT", "SINCE")
"""The columns of `alive_row`."""
DEVICES = ("DEVICE", "BUDGET", "FOR MODELS", "RESERVED")
"""The columns of `device_row`."""

SOON_S = 0.5
"""Less would be shown as 0 s, which a load that takes longer than usual does not keep."""
CONVERSATIONS = ("CONVERSATIONS OF", "KEPT", "SIZE", "SAVED", "RESTORED", "REUSED", "TIME SAVED")
"""The columns of `conversations_row`."""


def ps(server: Server, as_json: bool) -> None:
    status = server.ask("GET", "/hotseat/models")
    models = [model for model in status["models"] if is_alive(model)]
    if as_json:
        return show_json(models)
    print(table(ALIVE, [alive_row(model) for model in models]))
    if status["devices"]:
        print("\n" + table(DEVICES, [device_row(device) for device in status["devices"]]))
    if rows := [conversations_row(model) for model in status["models"] if has_saved(model)]:
        print("\n" + table(CONVERSATIONS, rows))
    if status["yielding"]:
        print(f"\nmemory is yielded: {status['yielding']}")
    for loop in status.get("failing_loops", ()):
        print(f'\nthe background loop "{loop}" fails again and again; hotseat\'s log says why')
    if (fleet := status["fleet"]) and fleet["connection"] == "disconnected":
        print(f"\n{fleet['host']} is disconnected from its fleet; see `hotseat fleet status`")
    if notes := [note for model in status["models"] for note in notes_on(model)]:
        print("\n" + "\n".join(notes))
    return None


def notes_on(model: dict[str, Any]) -> list[str]:
    failing = f"{model['model']} {failures_in_words(model)}; see `hotseat why {model['model']}`"
    return [*overrides_in_words(model), *given_up_in_words(model), *([failing] if is_failing(model) else [])]


def device_row(device: dict[str, Any]) -> tuple[str, ...]:
    return (device["device"], *(memory_text(device[key]) for key in ("budget", "available", "reserved")))


def has_saved(model: dict[str, Any]) -> bool:
    known = model["conversations"]
    return bool(known and known["saved"])


def conversations_row(model: dict[str, Any]) -> tuple[str, ...]:
    known = model["conversations"]
    counts = (str(known[key]) for key in ("saved", "restored", "reused"))
    return (model["model"], str(known["kept"]), memory_text(known["bytes"]), *counts, duration(known["gained_s"]))


def given_up_in_words(model: dict[str, Any]) -> list[str]:
    """`conversations of qwen: its server restores …, so they are not saved any more`, unless its reason says so."""
    known = model["conversations"]
    problem = known["problem"] if known else ""
    return [f"conversations of {model['model']}: {problem}"] if problem and problem not in model["why"] else []


def is_alive(model: dict[str, Any]) -> bool:
    return bool(model["phase"] != "cold" or model["waiting"])


def is_failing(model: dict[str, Any]) -> bool:
    """Failed, and not started again since."""
    return bool(model["failures"]) and model["phase"] in ("cold", "backoff")


def failures_in_words(model: dict[str, Any]) -> str:
    """`failed 3 times in a row; the next try is in 8s`."""
    times = "once" if model["failures"] == 1 else f"{model['failures']} times in a row"
    left_s = model["retry_in_s"]
    retry = f"the next try is in {duration(left_s)}" if left_s else "the next request starts it"
    return f"failed {times}; {retry}"


def overrides_in_words(model: dict[str, Any]) -> list[str]:
    """`qwen is pinned, set at run time; the configuration says that it is not pinned`."""
    chosen, said = model["overrides"], model["configured"]
    words = {"pinned": pin_in_words, "ttl": ttl_in_words}
    return [
        f"{model['model']} is {tell(chosen[key])}, set at run time; the configuration says that it is {tell(said[key])}"
        for key, tell in words.items()
        if chosen and chosen[key] is not None
    ]


def pin_in_words(is_pinned: bool) -> str:
    return "pinned" if is_pinned else "not pinned"


def ttl_in_words(ttl: float) -> str:
    return f"unloaded after {duration(ttl)} without requests" if ttl else "never unloaded for being idle"


def alive_row(model: dict[str, Any]) -> tuple[str, ...]:
    return (
        model["model"],
        phase_of(model),
        str(model["pid"] or ""),
        str(model["port"] or ""),
        str(model["in_flight"]),
        str(model["waiting"]),
        memory_in_words(model["footprint"], model["gpus"]),
        duration(model["ttl_left_s"]),
        duration(model["phase_s"]),
    )


def phase_of(model: dict[str, Any]) -> str:
    """`loading 42%` if the progress is known, `ready, adopted` if an earlier process of hotseat has started it."""
    progress, adopted = model.get("progress"), ", adopted" if model["adopted"] else ""
    return f"{model['phase']}{adopted}" if progress is None else f"{model['phase']} {progress:.0%}"


def memory_in_words(footprint: dict[str, Any] | None, gpus: Sequence[str] | None = None) -> str:
    """`ram 1.2 GiB (measured, estimated 1.1 GiB)`; empty where memory does not decide what runs.

    What counts on `gpus` is shown with the names of those that were chosen.
    """
    if footprint is None:
        return ""
    if footprint["reserved"] is None:
        return f"all of {'+'.join(gpus)}" if gpus else "a whole device"
    names = {str(ANY_GPU.device): "+".join(gpus)} if gpus else {}
    devices = [
        f"{names.get(device, device)} {memory_text(size)} ({sources(footprint, device)})"
        for device, size in footprint["reserved"].items()
    ]
    return ", ".join(devices) or f"none ({footprint['source']})"


def sources(footprint: dict[str, Any], device: str) -> str:
    """The source of the figure that counts, and the other figures."""
    others = [kind for kind in ("estimated", "measured") if kind != footprint["source"]]
    figures = [f"{kind} {memory_text(footprint[kind][device])}" for kind in others if device in (footprint[kind] or {})]
    return ", ".join([footprint["source"], *figures])


def list_models(server: Server, as_json: bool) -> None:
    """A key for inference sees what any client sees."""
    try:
        models = server.ask("GET", "/hotseat/models")["models"]
    except Refused as refused:
        if refused.status != FORBIDDEN:
            raise
        return list_as_client(server, as_json)
    if as_json:
        return show_json(models)
    rows = [(m["model"], ", ".join(m["aliases"]), m["phase"], m["description"] or m["name"]) for m in models]
    return print(table(("MODEL", "ALIASES", "STATUS", "DESCRIPTION"), rows))


def list_as_client(server: Server, as_json: bool) -> None:
    models = server.ask("GET", "/v1/models")["data"]
    if as_json:
        return show_json(models)
    rows = [(m["id"], (m.get("status") or {}).get("value", ""), m.get("description") or "") for m in models]
    return print(table(("MODEL", "STATUS", "DESCRIPTION"), rows))


def is_configured(server: Server, name: str) -> bool:
    """Whether it is the name or an alias of a model."""
    try:
        server.ask("GET", f"/v1/models/{in_path(name)}")
    except Refused as refused:
        if refused.status != UNKNOWN:
            raise
        return False
    return True


def load(server: Server, model: str) -> None:
    """Show a bar on a terminal, and nothing elsewhere."""
    if sys.stderr.isatty():
        from hotseat.cli.load_bar import load_with_bar

        return print(load_with_bar(server, model))
    return print(message_of(server.wait("GET", f"/upstream/{in_path(model)}/load")))


def stop(server: Server, model: str | None, force: bool) -> None:
    """Stop one model, or all if none is named; with all, a model that has stopped meanwhile is no failure."""
    if model is not None:
        return print(stopped(server, model, force))
    for each in server.ask("GET", "/hotseat/models")["models"]:
        if each["phase"] not in STOPPABLE:
            continue
        try:
            print(stopped(server, each["model"], force))
        except Refused as refused:
            if refused.status != NOT_RUNNING:
                raise
    return None


def stopped(server: Server, model: str, force: bool) -> str:
    query = {"force": "true"} if force else {}
    return message_of(server.wait("DELETE", f"/upstream/{in_path(model)}", **query))


def why(server: Server, model: str, as_json: bool) -> None:
    details = server.ask("GET", f"/hotseat/models/{in_path(model)}")
    if as_json:
        return show_json(details)
    return print("\n".join(sentences(details)))


def sentences(details: dict[str, Any]) -> list[str]:
    """The current state first, then failures, what is set at run time, waiting requests, past causes, other hosts."""
    on_host = f" on {details['host']}" if details["host"] else ""
    why = details["why"].removeprefix(f"{details['model']} is not ready: ")
    lines = [f"{details['model']} is {in_words(details['phase'])}{on_host}: {why}"]
    if is_failing(details):
        lines.append(f"it {failures_in_words(details)}; `hotseat load {details['model']}` tries now")
    lines += overrides_in_words(details)
    lines += given_up_in_words(details)
    lines += [waiting(ticket) for ticket in details["queue"]]
    for what, cause in (("started", details["last_start"]), ("stopped", details["last_stop"])):
        if cause:
            lines.append(f"last {what} {moment(cause['at'])}: {cause['reason']}")
    lines += last_failure(details["last_error"], details["why"])
    return lines + [on_another(seen) for seen in details["other_hosts"]]


def in_words(phase: str) -> str:
    return "backing off" if phase == "backoff" else phase


def last_failure(error: str | None, why: str) -> list[str]:
    """Only the server's output if the state has the same reason."""
    if not error or error == why:
        return []
    rest = error.removeprefix(f"{why.removesuffix('.')}; ")
    return [rest if rest != error else f"last failure: {error}"]


def on_another(seen: dict[str, Any]) -> str:
    """The state on another host, with that host's reason."""
    if not seen["why"]:
        return f"it is {in_words(seen['phase'])} on {seen['host']}, which gave no reason"
    return f"it is {in_words(seen['phase'])} on {seen['host']}: {seen['why']}"


def waiting(ticket: dict[str, Any]) -> str:
    sentence = f"request {ticket['ticket']} has waited {duration(ticket['waited_s'])}: {ticket['why']}"
    bounds = []
    if ticket["expected_s"] is not None and ticket["expected_s"] >= SOON_S:
        bounds.append(f"served in about {duration(ticket['expected_s'])}")
    if ticket["at_most_s"] is not None:
        bounds.append(f"{duration(ticket['at_most_s'])} at most")
    return "; ".join([sentence, ", ".join(bounds)]) if bounds else sentence


def reload(server: Server) -> None:
    try:
        answer = server.wait("POST", "/hotseat/reload")
    except Refused as refused:
        if problems := refused.body.get("problems"):
            raise BadConfig("\n".join([str(refused), *problems])) from None
        raise
    titles = {
        "added": "added",
        "changed": "restarted",
        "removed": "removed",
        "keys": "changed keys",
        "needs_restart": "not in force before a restart",
    }
    touched = [f"{title}: {', '.join(answer[what])}" for what, title in titles.items() if answer[what]]
    print("; ".join([message_of(answer), *(touched or ["nothing changed"])]))


def profile(server: Server, name: str | None, off: bool, as_json: bool) -> None:
    if name is not None:
        return print(message_of(server.wait("POST", f"/hotseat/profiles/{in_path(name)}")))
    if off:
        return print(message_of(server.wait("DELETE", "/hotseat/profiles")))
    answer = server.ask("GET", "/hotseat/profiles")
    if as_json:
        return show_json(answer)
    return print(
        table(("PROFILE", "ACTIVE", "PINS", "DESCRIPTION"), [profile_row(answer, p) for p in answer["profiles"]])
    )


def profile_row(answer: dict[str, Any], profile: dict[str, Any]) -> tuple[str, ...]:
    pins = ", ".join(f"{name} → {target or 'off'}" for name, target in profile["pins"].items())
    return profile["name"], "yes" if profile["name"] == answer["active"] else "", pins, profile["description"]


def yield_memory(server: Server, device: str | None, resume: bool) -> None:
    query = {"device": device} if device else {}
    print(message_of(server.wait("DELETE" if resume else "POST", "/hotseat/yield", **query)))


def show_json(answer: object) -> None:
    print(json.dumps(answer, indent=2, ensure_ascii=False))


def moment(at: float) -> str:
    return datetime.fromtimestamp(at).strftime("%Y-%m-%d %H:%M:%S")
