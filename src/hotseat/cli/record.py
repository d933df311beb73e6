"""`hotseat record`: follows a running hotseat and writes its traffic as a trace."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

from hotseat.cli.client import parsed
from hotseat.cli.problems import Problem
from hotseat.cli.tables import duration
from hotseat.scheduling.events import PromptProcessed
from hotseat.simulation.recording import Recording, SeenModel, SeenRequest
from hotseat.simulation.trace import Closed, Group, Matrix, Scheduler, Trace, write

if TYPE_CHECKING:
    from pathlib import Path

    from hotseat.cli.client import Server


def record(server: Server, file: Path, seconds: float | None) -> None:
    """Write the trace when the time is up, the server ends or the user presses Ctrl-C."""
    must_be_writable(file)
    watched = Watched()
    query: dict[str, object] = {} if seconds is None else {"seconds": seconds}
    how_long = "until Ctrl-C" if seconds is None else f"for {duration(seconds)}"
    try:
        for number, line in enumerate(server.stream("GET", "/hotseat/traffic", **query)):
            watched.note(parsed(line))
            if number == 0:  # a description of the machine, sent at once
                print(f"recording {how_long}", file=sys.stderr)
    except KeyboardInterrupt:
        pass
    trace = watched.recording.trace()
    file.write_text(write(trace), encoding="utf-8")
    print(watched.summary(file, trace))


def must_be_writable(file: Path) -> None:
    """Fail now rather than after an hour of recording."""
    try:
        file.touch(mode=0o600)  # who used what when is for nobody else
    except OSError as error:
        raise Problem(f"{file} cannot be written: {error.strerror}") from None


class Watched:
    """Sorts the feed's items into a recording. Their type is Any, as parsed from JSON."""

    def __init__(self) -> None:
        self.recording = Recording()
        self._left_unserved = 0
        self._missed = 0

    def note(self, item: dict[str, Any]) -> None:
        match item.pop("t"):
            case "machine":
                self._machine(**item)
            case "request" if item["granted"] is None:
                self._left_unserved += 1
            case "request":
                self._request(**item)
            case "load":
                self.recording.loads.setdefault(item["model"], []).append(item["seconds"])
            case "stop":
                self.recording.stops.setdefault(item["model"], []).append(item["seconds"])
            case "save":
                self.recording.saves.setdefault(item["model"], []).append(rate(item))
            case "restore":
                self.recording.restores.setdefault(item["model"], []).append(rate(item))
            case "slots":
                self.recording.slots[item["model"]] = item["slots"]
            case "missed":
                self._missed += item["count"]

    def _request(self, model: str, prompt: dict[str, Any] | None = None, **times: Any) -> None:
        """Loads are noted before the requests that they serve end, so their number says which process served it."""
        reported = PromptProcessed(**prompt) if prompt else None
        process = len(self.recording.loads.get(model, ()))
        self.recording.requests.append(SeenRequest(model=model, prompt=reported, process=process, **times))

    def _machine(
        self,
        patience: float,
        max_queue: int,
        devices: dict[str, int],
        groups: list[dict[str, Any]],
        models: list[dict[str, Any]],
        max_wait: float | None = None,
        matrix: dict[str, Any] | None = None,
    ) -> None:
        recording = self.recording
        recording.scheduler = Scheduler(patience, max_queue, max_wait)
        recording.devices = devices
        recording.groups = [Group(**{**group, "members": tuple(group["members"])}) for group in groups]
        recording.matrix = Matrix(tuple(map(tuple, matrix["sets"])), matrix["evict_costs"]) if matrix else None
        recording.models = [SeenModel(**model) for model in models]

    def summary(self, file: Path, trace: Trace) -> str:
        loops = sum(isinstance(client, Closed) for client in trace.clients)
        names = {client.client for client in trace.clients}
        lines = [
            f"{file}: {len(self.recording.requests)} requests of {len(names)} clients"
            f" for {len(trace.models)} models; {loops} clients waited for each response"
        ]
        if guessed := self.recording.unmeasured():
            lines.append(f"load time estimated, because no load was observed: {', '.join(guessed)}")
        if self._left_unserved:
            lines.append(f"skipped, because they ended before they were served: {self._left_unserved}")
        if self._missed:
            lines.append(f"missed, because they arrived faster than they could be written: {self._missed}")
        return "\n".join(lines)


def rate(transfer: dict[str, Any]) -> float:
    """Tokens per second of a conversation that was saved or restored."""
    tokens, seconds = transfer["tokens"], transfer["seconds"]
    return float(tokens / max(seconds, 1e-6))
