"""hotseat in front of models that answer, load slowly, break and are busy.

What really happened is read from the models' own record and from hotseat's metrics, never from the client.
"""

from __future__ import annotations

import http.client
import json
import re
import shlex
import sys
from contextlib import closing, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tests.conformance.stub_upstream import tokens
from tests.support.client import PATIENCE_S, chat_body
from tests.support.hotseat import Hotseat
from tests.support.waiting import eventually

if TYPE_CHECKING:
    from collections.abc import Iterator

REPOSITORY = Path(__file__).parents[1]
QUESTION = "hello"
SPEED = 40
"""How many times as fast time passes in situations that last minutes."""
TWO_MINUTES = f"--load-seconds {120 / SPEED}"
MODELS = {
    "good": "",
    "slow-to-load": "--load-seconds 3",
    "two-minutes": TWO_MINUTES,
    "two-minutes-and-timeout": TWO_MINUTES,
    "two-minutes-and-comments": TWO_MINUTES,
    "broken": "--exit-on-start",
    "dies-mid-stream": "--die-mid-stream --token-delay 0.05",
    "leisurely": "--token-delay 1",
    "narrow": "--token-delay 0.02",
}


FAST_CLOCK = (sys.executable, str(REPOSITORY / "clients/fast_clock.py"), str(SPEED))


class Rig:
    def __init__(self, hotseat: Hotseat, record: Path) -> None:
        self.url = hotseat.url
        self._hotseat = hotseat
        self._record = record

    def answers(self, model: str, status: str = r"\dxx") -> int:
        """How many requests for the model were answered with this class of status, or with any."""
        pattern = rf'hotseat_requests_total{{model="{model}",status="{status}"}} (\d+)'
        return sum(map(int, re.findall(pattern, self._hotseat.call("GET", "/metrics").body.decode())))

    def noted(self, model: str, event: str) -> list[dict[str, Any]]:
        """The record of the model's own server, oldest first."""
        facts = map(json.loads, self._record.read_text().splitlines())
        return [fact for fact in facts if (fact["name"], fact["event"]) == (model, event)]

    @contextmanager
    def crowd(self) -> Iterator[None]:
        """Within the block the narrow model is busy and the queue is full."""
        served = self._hotseat.stream("narrow", max_tokens=10_000).until_it_speaks()
        with closing(served.connection), closing(served.response), closing(self._wait_in_line()):
            eventually(lambda: self._hotseat.call("GET", "/hotseat/queue").json()["waiting"])
            yield

    def _wait_in_line(self) -> http.client.HTTPConnection:
        connection = http.client.HTTPConnection("127.0.0.1", self._hotseat.port, timeout=PATIENCE_S)
        connection.request("POST", "/v1/chat/completions", json.dumps(chat_body("narrow", 4)))
        return connection


@contextmanager
def open_rig(folder: Path) -> Iterator[Rig]:
    record = folder / "record.jsonl"
    record.touch()
    with Hotseat(config(record), folder, program=FAST_CLOCK) as hotseat:
        yield Rig(hotseat, record)


def whole_answer(model: str) -> str:
    return "".join(tokens(model, QUESTION))


def config(record: Path) -> dict[str, Any]:
    models: dict[str, dict[str, Any]] = {name: model(name, script, record) for name, script in MODELS.items()}
    models["narrow"]["concurrencyLimit"] = 1
    models["two-minutes-and-comments"]["sendLoadingState"] = "comments"
    together = {"swap": False, "members": list(MODELS)}
    return {"scheduler": {"maxQueue": 1}, "groups": {"together": together}, "models": models}


def model(name: str, script: str, record: Path) -> dict[str, Any]:
    words = [sys.executable, "-m", "clients.upstream", "--name", name, "--record", str(record), "--port"]
    return {"cmd": f"{shlex.join(words)} ${{PORT}} {script}", "env": {"PYTHONPATH": str(REPOSITORY)}}
