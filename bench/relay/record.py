"""The result of a run: samples, machine and versions, as JSON that can be read back."""

from __future__ import annotations

import json
import os
import platform
import subprocess
import time
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Self

from bench.relay.cells import Work
from bench.relay.figures import BARE, Sample
from bench.relay.proxies.all import PROXIES
from bench.relay.pythons import hotseat, python_version, version_in
from tests.support.llama import SERVER

if TYPE_CHECKING:
    from collections.abc import Iterable

    from bench.relay.processes import Share

TITLES = {BARE: "bare model server", **{proxy.name: proxy.title for proxy in PROXIES.values()}}


@dataclass(frozen=True, slots=True)
class Record:
    date: str
    machine: str
    versions: dict[str, str]
    rounds: int
    seconds: float
    samples: list[Sample]
    stolen: float | None = None
    """The share of the machine's time that the hypervisor gave to others meanwhile."""
    used_by_others: float | None = None
    """The share that other programs on the machine used."""

    def write(self, path: Path) -> None:
        path.write_text(json.dumps(asdict(self), indent=1) + "\n")

    @classmethod
    def read(cls, path: Path) -> Self:
        content = json.loads(path.read_text())
        return cls(**{**content, "samples": [Sample(**sample) for sample in content["samples"]]})

    def cells(self) -> list[str]:
        return list(dict.fromkeys(sample.cell for sample in self.samples))


def joined(first: Record, *others: Record) -> Record:
    """Several runs on one machine as one: the rounds of each follow those of the one before."""
    for later in others:
        first = followed_by(first, later)
    return first


def followed_by(first: Record, later: Record) -> Record:
    seconds = first.seconds + later.seconds

    def mean(early: float | None, late: float | None) -> float | None:
        return None if early is None or late is None else (early * first.seconds + late * later.seconds) / seconds

    stolen, used = mean(first.stolen, later.stolen), mean(first.used_by_others, later.used_by_others)
    moved = [replace(sample, round=sample.round + first.rounds) for sample in later.samples]
    rounds, versions = first.rounds + later.rounds, first.versions | later.versions
    return Record(first.date, first.machine, versions, rounds, seconds, first.samples + moved, stolen, used)


def recorded(samples: list[Sample], names: Iterable[str], rounds: int, share: Share) -> Record:
    date = time.strftime("%Y-%m-%d")
    shares = share.stolen(), share.used_by_others()
    took_part = versions(names, has_llama=any(sample.cell.startswith(Work.LLAMA.value) for sample in samples))
    return Record(date, machine(), took_part, rounds, share.seconds(), samples, *shares)


def machine() -> str:
    model = next(
        (
            line.partition(":")[2].strip()
            for line in Path("/proc/cpuinfo").read_text().splitlines()
            if "model name" in line
        ),
        platform.machine(),
    )
    memory_gb = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 1e9
    return f"{model}, {os.cpu_count()} cores, {memory_gb:.0f} GB, Linux {platform.release()}"


def versions(names: Iterable[str], *, has_llama: bool) -> dict[str, str]:
    """Of everything that took part."""
    found = {name: PROXIES[name].version() for name in names}
    found |= {
        "CPython": python_version(),
        **{name: version_in(hotseat(), name) for name in ("uvloop", "httptools", "msgspec")},
    }
    if has_llama:
        said = subprocess.run([SERVER, "--version"], capture_output=True, text=True, check=True)
        found["llama-server"] = (said.stdout + said.stderr).partition("version:")[2].splitlines()[0].strip()
    return found
