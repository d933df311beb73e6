"""`hotseat debug-bundle`: one file for a bug report, without secrets and without contents of requests.

What cannot be had is named, with the reason.
"""

from __future__ import annotations

import io
import json
import os
import re
import tarfile
import time
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

from hotseat.catalog.redaction import HIDDEN
from hotseat.cli.client import Refused
from hotseat.cli.doctor import examined, finding_json, understood
from hotseat.cli.local_models import is_local
from hotseat.cli.problems import MISREAD, Problem, Unreachable
from hotseat.cli.reports.facts import devices, versions
from hotseat.cli.reports.mask import Mask
from hotseat.cli.shared_options import USUAL_CONFIG
from hotseat.cli.tables import table
from hotseat.config.effective import resolved
from hotseat.memory.machine import find_machine

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from hotseat.cli.client import Server

MASKED = "API keys, tokens, values of the environment, home directories and contents of requests were removed."
MODE = 0o600
LOOK = "Model servers may print anything, so check the files before you send them."
OWN_LINES, MODEL_LINES = 2000, 500
MOST_MODELS = 50
LARGEST = 1 << 20
"""Bytes of one file; of a longer text the end is kept, and of JSON the first items of each list and object."""
FEWER_ITEMS = (1000, 300, 100, 30, 10)
LEFT_OUT = "(left out)"
UNEXPECTED = (*MISREAD, OSError)
"""What the answer of another program or of another version of hotseat leads to."""
CONFIGURATION = "the configuration, without the values of env"


def debug_bundle(server: Server, config: Sequence[Path], file: Path) -> None:
    found = list(parts(server, config))
    kept = [each for each in found if isinstance(each, Part)]
    missing = [f"missing: {each.name}: {each.why}" for each in found if isinstance(each, Missing)]
    contents = table(("FILE", "BYTES", "WHAT"), [(part.name, str(len(part.data)), part.what) for part in kept])
    about = "\n".join([contents, *missing, "", MASKED, LOOK])
    write(file, [Part("README.txt", "this list", about.encode()), *kept])
    print(f"{about}\n\nWrote {file}. To inspect it: tar -xzf {file}")


def write(file: Path, kept: Sequence[Part]) -> None:
    """In a folder of the file's name."""
    folder = file.name.removesuffix(".tar.gz")
    with created(file) as opened, tarfile.open(fileobj=opened, mode="w:gz") as bundle:
        for part in kept:
            entry = tarfile.TarInfo(f"{folder}/{part.name}")
            entry.size, entry.mode, entry.mtime = len(part.data), MODE, int(time.time())
            bundle.addfile(entry, io.BytesIO(part.data))


@contextmanager
def created(file: Path) -> Iterator[IO[bytes]]:
    """A file that only its owner can read. An existing one is not replaced."""
    try:
        descriptor = os.open(file, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, MODE)
        with os.fdopen(descriptor, "wb") as opened:
            yield opened
    except FileExistsError:
        raise Problem(f"{file} exists already; name another file with -o") from None
    except OSError as problem:
        raise Problem(f"{file} cannot be written: {problem.strerror}") from None


class TooLarge(ValueError):
    """Even with few items."""


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
    yield fact(mask, "versions.json", "versions of programs, packages and drivers", lambda: versions(loaded))
    yield fact(mask, "devices.json", "memory of the devices", lambda: devices(machine, machine.sample(())))
    yield fact(mask, "doctor.json", "findings of `hotseat doctor`", lambda: findings(sources, server))
    try:
        yield state(mask, server, "config.json", "/hotseat/config", CONFIGURATION)
    except Unreachable:
        if loaded:
            known = {"resolved": resolved(loaded)}
            yield fact(mask, "config.json", CONFIGURATION, lambda: without_env(known))
    try:
        yield from of_server(mask, server)
    except Unreachable as problem:
        yield Missing("state, metrics and logs", str(problem))


def of_server(mask: Mask, server: Server) -> Iterator[Part | Missing]:
    """Raises Unreachable. What the key may not see, and what there is not, is missing."""
    yield state(mask, server, "models.json", "/hotseat/models", "state of every model", mask.output)
    yield state(mask, server, "queue.json", "/hotseat/queue", "waiting requests and their reasons")
    yield state(mask, server, "fleet.json", "/hotseat/fleet", "hosts of the fleet")
    yield or_missing("metrics.txt", lambda: as_text("metrics.txt", "metrics", mask.text(server.text("/metrics"))))
    yield from logs(mask, server)


def state(
    mask: Mask, server: Server, name: str, path: str, what: str, masked: Callable[[str], str] | None = None
) -> Part | Missing:
    return fact(mask, name, what, lambda: without_env(without_clients(server.ask("GET", path))), masked)


def findings(sources: Sequence[Path], server: Server) -> list[dict[str, Any]]:
    return [finding_json(finding) for finding in examined(sources, None, server.api_key)]


def files_served(server: Server) -> list[Path]:
    """The configuration files of a server on this machine, as far as this user can read them."""
    try:
        shown = server.ask("GET", "/hotseat/config")["resolved"] if is_local(server) else {}
        files = [Path(shown["workingDir"]) / file for file in shown.get("files", ())]
    except (Problem, *UNEXPECTED):  # it may be another program
        return []
    return [file for file in files if os.access(file, os.R_OK)]


def logs(mask: Mask, server: Server) -> Iterator[Part | Missing]:
    what = f"the last {OWN_LINES} lines of hotseat's log"
    yield log(mask, server, "logs/hotseat.txt", what, own="true", lines=OWN_LINES)
    try:
        models = [str(model["model"]) for model in server.ask("GET", "/hotseat/models")["models"]][:MOST_MODELS]
    except (Refused, *UNEXPECTED) as problem:
        yield Missing("logs", reason(problem))
        return
    for number, model in enumerate(models):
        name = f"logs/{number}-{re.sub(r'[^A-Za-z0-9.-]', '_', model)}.txt"
        said = log(mask, server, name, f"the last {MODEL_LINES} lines of {model}", model=model, lines=MODEL_LINES)
        if isinstance(said, Missing) or said.data:
            yield said


def log(mask: Mask, server: Server, name: str, what: str, **query: object) -> Part | Missing:
    return or_missing(name, lambda: as_text(name, what, mask.output(server.text("/hotseat/logs", **query))))


# Parts


def fact(
    mask: Mask, name: str, what: str, find: Callable[[], Any], masked: Callable[[str], str] | None = None
) -> Part | Missing:
    return or_missing(name, lambda: Part(name, what, as_json(mask.tree(find(), masked))))


def or_missing(name: str, make: Callable[[], Part]) -> Part | Missing:
    try:
        return make()
    except (Refused, *UNEXPECTED) as problem:
        return Missing(name, reason(problem))


def reason(problem: Exception) -> str:
    if isinstance(problem, Problem | TooLarge | OSError):
        return str(problem)
    return f"unexpected response ({type(problem).__name__}: {problem})"


def as_json(value: Any) -> bytes:
    """Shortened by items, so that it stays valid."""
    for most in (None, *FEWER_ITEMS):
        data = json.dumps(value if most is None else first(value, most), indent=1).encode()
        if len(data) <= LARGEST:
            return data
    raise TooLarge(f"larger than {LARGEST} bytes")


def first(value: Any, most: int) -> Any:
    """The first items of each list and object in it, with the number of the others."""
    others = len(value) - most if isinstance(value, list | dict) else 0
    if isinstance(value, dict):
        kept = {name: first(value[name], most) for name in [*value][:most]}
        return {**kept, LEFT_OUT: others} if others > 0 else kept
    if isinstance(value, list):
        return [*(first(item, most) for item in value[:most]), *([f"{LEFT_OUT}: {others}"] if others > 0 else ())]
    return value


def as_text(name: str, what: str, text: str) -> Part:
    end = text.encode("utf-8", "replace")[-LARGEST:]
    return Part(name, what, end.decode("utf-8", "ignore").encode())


def without_env(report: dict[str, Any]) -> dict[str, Any]:
    for model in report.get("resolved", {}).get("models", {}).values():
        model["env"] = dict.fromkeys(model["env"], HIDDEN) if isinstance(model["env"], dict) else HIDDEN
    return report


def without_clients(state: dict[str, Any]) -> dict[str, Any]:
    """Their names are nobody else's business."""
    waiting = [{**ticket, "client": HIDDEN} for ticket in state.get("waiting", ())]
    return {**state, "waiting": waiting} if waiting else state
