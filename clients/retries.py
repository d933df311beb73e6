"""`python -m clients.retries [NAME...]`: how long each client keeps asking for a model that cannot start.

Without names it asks through all of them and writes docs/reference/retries.md. The figures of an earlier version are
seen with its sources first in PYTHONPATH.
"""

from __future__ import annotations

import re
import subprocess
import sys
import tempfile
import time
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from clients.applications.application_list import ON_DEMAND as APPLICATIONS
from clients.applications.workspace import PATIENCE_S, Workspace
from clients.caller import calling
from clients.client_list import TESTED
from clients.rig import REPOSITORY
from tests.support.hotseat import Hotseat
from tests.support.llama import SERVER, present

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from clients.applications.steps import Session

    Ask = Callable[[], None]

PAGE = REPOSITORY / "docs/reference/retries.md"
CLIENTS = ("openai-python 3", "openai-node", "anthropic-python")
PROGRAMS = ("Codex", "opencode", "Claude Code")
MISSING = "missing"
QUESTIONS = 3
"""The first finds a model that nobody has tried; at the third it backs off, if each client asks once."""


class Figure(NamedTuple):
    """What one question came to."""

    requests: int
    """That reached hotseat."""
    seconds: float | None
    """Until the client gave up, its own start included; None: it was ended, because it did not."""

    def __str__(self) -> str:
        times = f"{self.requests} request{'s' * (self.requests != 1)}"
        return f"{times}, {f'more than {PATIENCE_S} s' if self.seconds is None else f'{self.seconds:.1f} s'}"


BEFORE = {
    "openai-python 3": (Figure(1, 0.3), Figure(1, 0.2), Figure(1, 0.0)),
    "openai-node": (Figure(1, 0.5), Figure(1, 0.2), Figure(1, 0.1)),
    "anthropic-python": (Figure(1, 0.3), Figure(1, 0.2), Figure(1, 0.0)),
    "Codex": (Figure(19, None), Figure(12, None), Figure(14, None)),
    "opencode": (Figure(9, 93.6), Figure(9, 221.5), Figure(9, 245.0)),
    "Claude Code": (Figure(1, 9.2), Figure(1, 8.3), Figure(1, 11.5)),
}
"""The same, seen with the commit 8c399da0, where a model that backs off had `Retry-After` whatever the cause."""


@dataclass(frozen=True, slots=True)
class Asked:
    name: str
    version: str
    figures: tuple[Figure, ...]


@contextmanager
def open_hotseat() -> Iterator[tuple[Hotseat, Path]]:
    """With one model: a real llama-server whose file is missing."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        cmd = f"{present(SERVER)} -m {folder}/lost.gguf --port ${{PORT}}"
        with Hotseat({"models": {MISSING: {"cmd": cmd}}}, folder) as hotseat:
            yield hotseat, folder


def figure(hotseat: Hotseat, ask: Ask) -> Figure:
    before, began = answered(hotseat), time.monotonic()
    try:
        ask()
    except subprocess.TimeoutExpired:
        return Figure(answered(hotseat) - before, None)
    return Figure(answered(hotseat) - before, time.monotonic() - began)


def answered(hotseat: Hotseat) -> int:
    """Requests for the model so far."""
    pattern = rf'hotseat_requests_total{{model="{MISSING}",status="\dxx"}} (\d+)'
    return sum(map(int, re.findall(pattern, hotseat.call("GET", "/metrics").body.decode())))


def of_client(name: str) -> Asked:
    """A library in its own process, which has started already."""
    client = next(each for each in TESTED if each.name == name)
    client.install()
    with open_hotseat() as (hotseat, _), calling(client.argv, hotseat.url) as caller:
        figures = tuple(figure(hotseat, lambda: fails(caller.ask(MISSING).error)) for _ in range(QUESTIONS))
        return Asked(name, caller.version, figures)


def fails(error: str | None) -> None:
    assert error, "it got an answer"


def show(session: Session) -> None:
    """What a user reads in the end, for whoever runs this."""
    print(session.ask(MISSING, "hello").everything[-400:], file=sys.stderr)


def of_program(name: str) -> Asked:
    application = next(each for each in APPLICATIONS if each.name == name)
    application.install()
    with open_hotseat() as (hotseat, folder):
        workspace = Workspace(hotseat.url, folder / "home")
        workspace.project.mkdir(parents=True)
        with application.open(workspace) as session:
            figures = tuple(figure(hotseat, lambda: show(session)) for _ in range(QUESTIONS))
    return Asked(name, application.version, figures)


def asked(name: str) -> Asked:
    return of_program(name) if name in PROGRAMS else of_client(name)


HEAD = f"""\
# Retries

<!-- Written by `just retries`; do not edit. -->

How long does a client keep asking for a model that cannot start?
Each client asked three times, one after the other, for a model whose file is missing.
It had its default settings, and the model a real llama-server.
The figures are the requests that reached hotseat, and the seconds until the client gave up.
A program's own start is included, and a client that went on was ended after {PATIENCE_S} s.

hotseat answers such requests with 503 and `x-should-retry: false`, without `Retry-After`.
Earlier it added `Retry-After` from the third request on, while the model backed off.
"""
NOTES = """
- The clients of OpenAI and Anthropic and Claude Code obey `x-should-retry` and give up after one request.
- Codex judges the status alone and sends 30 requests; with `Retry-After` it had not given up after 300 s.
- opencode judges the status alone, too, and sends nine requests, with or without `Retry-After`.
"""


def page(rows: Sequence[Asked]) -> str:
    head = ["client", "version", "question", "now", "earlier"]
    body = [
        [row.name, row.version, str(number), str(now), str(earlier)]
        for row in rows
        for number, (now, earlier) in enumerate(zip(row.figures, BEFORE[row.name], strict=True), start=1)
    ]
    lines = ["| " + " | ".join(cells) + " |" for cells in [head, ["---"] * len(head), *body]]
    return "\n".join([HEAD, *lines, NOTES.rstrip()]) + "\n"


def main(names: Sequence[str]) -> None:
    rows = []
    for name in names or (*CLIENTS, *PROGRAMS):
        rows.append(asked(name))
        print(name, rows[-1].version, *rows[-1].figures, sep=" | ", flush=True)
    if not names:
        PAGE.write_text(page(rows))


if __name__ == "__main__":
    main(sys.argv[1:])
