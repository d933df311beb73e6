"""A debug bundle of something unexpected has what can be had, and says what is missing."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, cast

import pytest

from hotseat.cli.reports import bundle
from hotseat.cli.reports.bundle import Missing, Part, as_json, as_text, files_served, of_server, without_env
from hotseat.cli.reports.mask import Mask

if TYPE_CHECKING:
    from hotseat.cli.client import Server

MASK = Mask(None, {})


@dataclass
class Other:
    """A program that answers everything with this."""

    answer: Any
    said: str = "prompt='secret'"
    url: str = "http://127.0.0.1:1"
    asked: list[str] = field(default_factory=list)

    def ask(self, method: str, path: str) -> Any:
        self.asked.append(f"{method} {path}")
        return self.answer

    def text(self, path: str, **query: object) -> str:
        self.asked.append(f"{path} {query}")
        return self.said


@pytest.mark.parametrize(
    "answer", [[], None, "hello", {"models": 1}, {"models": [{}]}, {"resolved": []}, {"waiting": 1}]
)
def test_an_answer_of_another_program(answer: Any) -> None:
    """No part ends the others."""
    found = [*of_server(MASK, cast("Server", Other(answer)))]
    missing = [part for part in found if isinstance(part, Missing)]

    assert {"metrics.txt", "logs/hotseat.txt"} <= {part.name for part in found}
    assert any(part.why.startswith("unexpected response (") for part in missing)


@pytest.mark.parametrize(
    "answer", [[], {"resolved": []}, {"resolved": {"files": ["a"]}}, {"resolved": {"workingDir": 1}}]
)
def test_the_files_of_another_program(answer: Any) -> None:
    """There are none."""
    assert files_served(cast("Server", Other(answer))) == []


def test_texts_that_quote_model_servers() -> None:
    """hotseat's own log and the last errors of models pass the same filter as their output."""
    failed = {"model": "qwen", "last_error": "exit code 1: text='secret'"}
    found = {part.name: part for part in of_server(MASK, cast("Server", Other({"models": [failed]})))}
    parts = [found[name] for name in ("models.json", "logs/hotseat.txt", "logs/0-qwen.txt")]

    assert all(isinstance(part, Part) and part.data and b"secret" not in part.data for part in parts)


def test_variables_of_another_version() -> None:
    """Whatever form they have, no value is shown."""
    report = {"resolved": {"models": {"qwen": {"env": ["A=secret"]}}}}

    assert "secret" not in str(without_env(report))


def test_large_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    """JSON is shortened by items and stays valid; of text the end is kept, in whole characters."""
    monkeypatch.setattr(bundle, "LARGEST", 999)
    shortened = json.loads(as_json({"models": [{"model": str(number)} for number in range(5000)], "last": 1}))

    assert (shortened["models"][0], shortened["last"]) == ({"model": "0"}, 1)
    assert shortened["models"][-1] == f"(left out): {5000 - len(shortened['models']) + 1}"
    assert "(left out)" in json.loads(as_json({str(number): number for number in range(5000)}))
    assert as_text("a", "b", "ä" * 1000).data.decode() == "ä" * 499
    with pytest.raises(ValueError, match="larger than 999 bytes"):
        as_json("x" * 5000)
