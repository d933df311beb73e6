"""`hotseat show`: what a model is, from its files and its configuration, and what it does if hotseat runs."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import TYPE_CHECKING, Any

from hotseat.catalog.redaction import redacted
from hotseat.cli.client import Refused, in_path
from hotseat.cli.estimate import estimated, totals
from hotseat.cli.local_models import known
from hotseat.cli.problems import Problem, Unreachable
from hotseat.cli.queries import phase_of, show_json
from hotseat.cli.tables import count_text, duration, without_escapes
from hotseat.config.units import size_text
from hotseat.estimates.files import Disk
from hotseat.estimates.gguf import CHAT_TEMPLATE
from hotseat.estimates.report import CannotEstimate
from hotseat.model_files.file_kind import read_gguf

if TYPE_CHECKING:
    from collections.abc import Iterator

    from hotseat.cli.client import Server
    from hotseat.cli.local_models import Known, KnownModel, Places


def show(name: str, places: Places, as_json: bool) -> None:
    everything = known(places)
    model = everything.resolve(name)
    facts = {**_configured(model, everything), **_files(model), **_memory(model), **_state(model, places.server)}
    if as_json:
        return show_json(facts)
    for title, value in _lines(facts):
        print(without_escapes(f"{title:<12}  {value}"))
    return None


def _configured(model: KnownModel, everything: Known) -> dict[str, Any]:
    return {
        "model": model.name,
        "aliases": list(model.aliases),
        "configured": "modelsDir" if model.is_from_models_dir else "models",
        "sources": list(everything.sources),
        "command": list(redacted(model.argv)),
    }


def _files(model: KnownModel) -> dict[str, Any]:
    """What the files say of themselves; a missing file has no size."""
    roles = model.files()
    listed = [
        {"role": role, "path": str(file), "bytes": file.stat().st_size if file.exists() else None}
        for role, files in roles.items()
        for file in files
    ]
    return {"files": listed, **(_head(roles["model"][0]) if roles.get("model") else {})}


def _head(file: Path) -> dict[str, Any]:
    try:
        found, head = read_gguf(file), Disk(Path.cwd()).gguf(str(file))
    except CannotEstimate as problem:
        return {"problem": problem.message}
    return {
        "kind": found.role.value,
        "architecture": head.keys.get("general.architecture"),
        "quantisation": found.quant,
        "parameters": found.parameters,
        "trained_context": found.trained_context,
        "chat_template": CHAT_TEMPLATE in head.keys,
    }


def _memory(model: KnownModel) -> dict[str, Any]:
    try:
        found = estimated(model.argv, model.env, model.working_dir)
    except Problem as problem:
        return {"memory": [], "memory_problem": str(problem)}
    return {"memory": totals(found)}


def _state(model: KnownModel, server: Server) -> dict[str, Any]:
    try:
        seen = server.ask("GET", f"/hotseat/models/{in_path(model.name)}")
        return {name: seen[name] for name in ("phase", "phase_s", "adopted", "why", "conversations")}
    except (Unreachable, Refused):
        return {"phase": None, "phase_s": None, "adopted": False, "why": "", "conversations": None}


# Text


def _lines(facts: dict[str, Any]) -> Iterator[tuple[str, str]]:
    yield "model", facts["model"] + (f" (also {', '.join(facts['aliases'])})" if facts["aliases"] else "")
    yield "state", f"{phase_of(facts)}: {facts['why']}" if facts["phase"] else "unknown: no hotseat responds"
    if facts["adopted"]:
        yield "started", f"by an earlier process of hotseat; {facts['phase']} for {duration(facts['phase_s'])}"
    if facts["conversations"]:
        yield "kept", conversations_in_words(facts["conversations"])
    yield "configured", f"under {facts['configured']} in {', '.join(facts['sources'])}"
    for file in facts["files"]:
        yield file["role"], f"{file['path']} ({size_text(file['bytes']) if file['bytes'] is not None else 'missing'})"
    yield from _head_lines(facts)
    for sentence in facts["memory"] or [f"unknown: {facts['memory_problem']}"]:
        yield "memory", sentence
    yield "command", shlex.join(facts["command"])


def conversations_in_words(known: dict[str, Any]) -> str:
    """`3 conversations, 210 MiB; 9 saved, 5 restored, 4 reused; 42s of computing saved`."""
    if not known["saved"] and not known["problem"]:
        return "no conversation has been saved so far"
    kept = "1 conversation" if known["kept"] == 1 else f"{known['kept']} conversations"
    past = ", ".join(f"{known[what]} {what}" for what in ("saved", "restored", "reused"))
    gained = f"{duration(known['gained_s'])} of computing saved"
    return "; ".join(filter(None, [f"{kept}, {size_text(known['bytes'])}", past, gained, known["problem"]]))


def _head_lines(facts: dict[str, Any]) -> Iterator[tuple[str, str]]:
    if "kind" not in facts:
        return
    template = "" if facts["chat_template"] else ", without a chat template"
    yield "kind", f"{facts['kind']}, {facts['architecture']}{template}"
    yield "size", f"{count_text(facts['parameters'])} parameters, {facts['quantisation']}"
    yield "context", f"trained on {facts['trained_context']} tokens"
