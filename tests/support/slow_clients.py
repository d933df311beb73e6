"""Slow clients: slowhttptest opens hundreds of connections and reports what became of them."""

from __future__ import annotations

import csv
import signal
import subprocess
from dataclasses import dataclass
from typing import TYPE_CHECKING, Self

if TYPE_CHECKING:
    from pathlib import Path

CONNECTIONS = 200
LONGEST_S = 120
PATIENCE_S = 30
"""Timeout of its own probe, once a second, of whether the service is available."""
NOBODY_LEFT = "No open connections left"


@dataclass(frozen=True, slots=True)
class Report:
    """The counts of slowhttptest, second by second."""

    connected: list[int]
    was_available: list[bool]
    verdict: str
    """Why the attack ended."""


class SlowClients:
    """All clients run from the beginning of the block; `report` is available after its end."""

    report: Report

    def __init__(self, url: str, folder: Path, *mode: str) -> None:
        self._folder = folder
        bounds = ("-c", str(CONNECTIONS), "-r", str(CONNECTIONS), "-l", str(LONGEST_S), "-p", str(PATIENCE_S))
        self._argv = ["slowhttptest", *mode, *bounds, "-g", "-o", str(folder / "report"), "-u", url]

    def __enter__(self) -> Self:
        with (self._folder / "said").open("wb") as said:
            self._process = subprocess.Popen(self._argv, stdout=said, stderr=said, stdin=subprocess.DEVNULL)
        return self

    def __exit__(self, *problem: object) -> None:
        if self.go_on:
            self._process.send_signal(signal.SIGINT)
        self._process.wait(timeout=PATIENCE_S)
        self.report = self._read_report()

    @property
    def go_on(self) -> bool:
        """False once their time is up or none of them is connected any more."""
        return self._process.poll() is None

    def _read_report(self) -> Report:
        said = (self._folder / "said").read_text(errors="replace")
        with (self._folder / "report.csv").open() as table:
            rows = list(csv.DictReader(table))
        available = [row["Service Available"] != "0" for row in rows]
        return Report([int(row["Connected"]) for row in rows], available, said.partition("Exit status:")[2])
