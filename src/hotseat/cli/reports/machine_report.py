"""`hotseat doctor --report`: what a machine with GPUs does with a few models, as text for an issue.

It loads, swaps and wakes the models of the running hotseat, or of one that is started for it, and measures memory and
time. It sends no prompts.
"""

from __future__ import annotations

import json
import os
import ssl
import subprocess
import sys
import time
from contextlib import contextmanager, nullcontext
from dataclasses import asdict, dataclass, field, replace
from tempfile import TemporaryFile
from typing import TYPE_CHECKING, Any

from hotseat.catalog.redaction import redacted
from hotseat.cli.client import Refused, Server, in_path
from hotseat.cli.doctor import server_of, understood
from hotseat.cli.local_models import is_local
from hotseat.cli.problems import BadConfig, NothingListens, Problem, Unreachable
from hotseat.cli.queries import NOT_RUNNING, STOPPABLE, stopped
from hotseat.cli.reports.facts import devices, versions
from hotseat.cli.reports.markdown import page
from hotseat.cli.reports.mask import Mask
from hotseat.cli.tables import without_escapes_but_lines
from hotseat.errors import UnknownModel
from hotseat.identifiers import ModelName
from hotseat.memory.machine import find_machine
from hotseat.memory.measurement import footprint
from hotseat.net.listeners import bound

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from contextlib import AbstractContextManager
    from pathlib import Path
    from typing import IO

    from hotseat.config.load import Loaded
    from hotseat.identifiers import Instant, Seconds
    from hotseat.memory.machine import Machine
    from hotseat.memory.measurement import Reading

LONGEST_S: Seconds = 285.0
"""All together less than five minutes."""
MOST_TRIED = 2
MOST_COMPARED = 30
"""Models whose size is asked for, to find the smallest."""
LEAST_S: Seconds = 0.001
LEAVE_S: Seconds = 60.0
"""For each model to be unloaded at the end."""
LOOK_S = 0.2
END_S = 60.0
"""A server of ours gets this long to stop its models."""
ASK_S = 5.0
"""For one answer of a server that starts."""
UNCLEAR = "The report started no server, since one may run there: make it reachable, or stop it, and try again"


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


@dataclass(slots=True)
class Trial:
    server: Server
    machine: Machine
    until: Instant
    is_ours: bool
    """Started for the report: whatever it has loaded may be unloaded."""
    clock: Callable[[], Instant] = time.monotonic
    models: list[dict[str, Any]] = field(default_factory=list)
    steps: list[dict[str, Any]] = field(default_factory=list)
    problem: str = ""
    """Why it ended early."""
    tried: list[str] = field(default_factory=list)

    def run(self, wanted: Sequence[str]) -> None:
        """What was measured before a problem is kept."""
        try:
            self._stop_all() if self.is_ours else self._refuse_while_in_use()
            chosen = wanted or self._smallest()
            for name in chosen:
                self._try(name)
            self._again(chosen[0])
        except Problem as problem:
            self.problem = "the time limit was reached" if self.clock() >= self.until else str(problem)
        finally:
            self._leave()

    # Steps

    def _try(self, name: str) -> None:
        """Load it, which may unload another one or put it to sleep, and measure it."""
        before = self.machine.sample(())
        self._load(name)
        self.models.append(self._measured(name, before))

    def _again(self, name: str) -> None:
        """A model that stayed loaded beside the other one is stopped first."""
        if self._phases().get(name) in ("ready", "draining"):
            self._timed(f"unload {name}", lambda: stopped(self._asked(), name, force=False))
        self._load(name)

    def _load(self, name: str) -> None:
        self.tried.append(name)
        word = "wake" if self._phases().get(name) == "asleep" else "load"
        self._timed(f"{word} {name}", lambda: self._ask(f"/upstream/{in_path(name)}/load"))

    def _timed(self, step: str, act: Callable[[], object]) -> None:
        began = self.clock()
        act()
        self.steps.append({"step": step, "seconds": round(self.clock() - began, 2), "phases": self._phases()})

    def _stop_all(self) -> None:
        for name, phase in self._phases().items():
            if phase in STOPPABLE:
                stopped(self._asked(), name, force=False)

    def _leave(self) -> None:
        """Unload what was loaded here, even if there was a problem. A server of ours stops anyway."""
        for name in dict.fromkeys(() if self.is_ours else self.tried):
            try:
                stopped(replace(self.server, patience_s=LEAVE_S), name, force=False)
            except Problem as problem:
                if not (isinstance(problem, Refused) and problem.status == NOT_RUNNING):
                    self.problem = self.problem or f"{name} could not be unloaded: {problem}"

    # Facts

    def _measured(self, name: str, before: Reading) -> dict[str, Any]:
        model = self._ask(f"/hotseat/models/{in_path(name)}", local="true")
        uses = footprint(model["pid"], self.machine.sample((model["pid"],)), before) if model["pid"] else {}
        return {
            "model": name,
            "estimated": self._estimate(name),
            "counted": model["footprint"],
            "measured": {device: asdict(use) for device, use in uses.items() if use.total},
            "gpus": model["gpus"],
        }

    def _estimate(self, name: str) -> dict[str, Any]:
        try:
            found = self._ask(f"/hotseat/models/{in_path(name)}/estimate")
        except Refused as refused:
            return {"problem": str(refused)}
        return {"needed": found["needed"], "device_share": found["device_share"], "notes": found["notes"]}

    def _smallest(self) -> list[str]:
        """They load fastest; a model without an estimate comes last."""
        sizes = {name: self._size(name) for name in [*self._phases()][:MOST_COMPARED]}
        if not sizes:
            raise Problem("the configuration has no models")
        return sorted(sizes, key=lambda name: sizes[name])[:MOST_TRIED]

    def _size(self, name: str) -> float:
        needed: dict[str, int] | None = self._estimate(name).get("needed")
        return float("inf") if needed is None else sum(needed.values())

    def _refuse_while_in_use(self) -> None:
        models = self._ask("/hotseat/models")["models"]
        busy = [model["model"] for model in models if model["in_flight"] or model["waiting"]]
        if busy:
            raise Problem(f"requests are in progress for {', '.join(busy)}; run the report when nobody uses the server")
        if alive := [f"{model['model']} ({model['phase']})" for model in models if model["phase"] in STOPPABLE]:
            raise Problem(
                f"the report would unload {', '.join(alive)}; `hotseat stop --all` frees them, then try again"
            )

    def _phases(self) -> dict[str, str]:
        return {model["model"]: model["phase"] for model in self._ask("/hotseat/models")["models"]}

    def _ask(self, path: str, **query: object) -> Any:
        return self._asked().ask("GET", path, **query)

    def _asked(self) -> Server:
        """It must answer before the time limit."""
        return replace(self.server, patience_s=max(LEAST_S, self.until - self.clock()))


def is_running(server: Server) -> bool:
    """Only a refused connection means no; whatever else keeps it from answering is a Problem."""
    try:
        return responds(server)
    except NothingListens:
        return False
    except Unreachable as problem:
        raise Unreachable(f"{problem}. {UNCLEAR}") from None


def responds(server: Server) -> bool:
    try:
        server.ask("GET", "/hotseat/ready")
    except Refused as refused:
        if refused.status < 300:
            raise Problem(
                f"another program than hotseat responds at {server.url}; stop it, or change `listen`"
            ) from None
    return True  # it may need a key, or be busy: the next request says so


@contextmanager
def started(config: Sequence[Path], api_key: str | None, has_tls: bool, until: Instant) -> Iterator[Server]:
    """`hotseat serve` on a free port of this machine. Its certificate is for another address, so any is accepted."""
    address = f"127.0.0.1:{free_port()}"
    tls = any_certificate() if has_tls else None
    server = Server(f"{'https' if tls else 'http'}://{address}", api_key, tls=tls)
    options = [word for path in config for word in ("--config", str(path))]
    command = [sys.executable, "-m", "hotseat", "serve", *options, "--listen", address]
    with TemporaryFile() as log, subprocess.Popen(command, stdout=log, stderr=log) as process:
        try:
            wait_for(process, replace(server, patience_s=ASK_S), log, until)
            yield server
        finally:
            end(process)


def end(process: subprocess.Popen[bytes]) -> None:
    """The process is gone afterwards; the guards of its models end them if it had to be killed."""
    process.terminate()
    try:
        process.wait(END_S)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()


def free_port() -> int:
    (listener,) = bound(("127.0.0.1", 0))
    with listener:
        return int(listener.getsockname()[1])


def any_certificate() -> ssl.SSLContext:
    context = ssl.create_default_context()
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    return context


def wait_for(process: subprocess.Popen[bytes], server: Server, log: IO[bytes], until: Instant) -> None:
    """A Problem with the last line of its log if it ends, or does not respond in time."""
    while not has_started(server):
        try:
            process.wait(LOOK_S)
        except subprocess.TimeoutExpired:
            if time.monotonic() < until:
                continue
            said = last_line(log) or "it printed nothing"
            raise Problem(f"`hotseat serve` did not respond within the time limit: {said}") from None
        said = last_line(log) or f"code {process.returncode}"
        raise Problem(f"`hotseat serve` could not start: {said}")


def has_started(server: Server) -> bool:
    try:
        return responds(server)
    except Unreachable:
        return False


def last_line(log: IO[bytes]) -> str:
    log.seek(0)
    said = log.read().decode(errors="replace").strip().splitlines()
    return said[-1] if said else ""
