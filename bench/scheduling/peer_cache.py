"""A file with the outcomes of the policies that do not change while ours does, named after the code they depend on."""

from __future__ import annotations

from hashlib import sha256
from pathlib import Path

from hotseat.simulation import trace

HERE = Path(__file__).parent
FOLDER = HERE.parents[1] / ".cache" / "bench-scheduling"
SIMULATOR = Path(trace.__file__).parent
OURS = ("agents", "clairvoyant", "jitter", "mixes", "peer", "policies", "runs", "trace_parts", "workloads")
SIMULATION = ("conversations", "replay", "results", "run_log", "scenario", "simulator", "trace")
SOURCES = (
    *(HERE / f"{name}.py" for name in OURS),
    *(SIMULATOR / f"{name}.py" for name in SIMULATION),
)


def digest() -> str:
    return sha256(b"".join(path.read_bytes() for path in SOURCES)).hexdigest()[:16]


DIGEST = digest()
"""Of the code that this process runs, even if the files change meanwhile."""


def read() -> bytes:
    """Empty if nothing was kept for this code."""
    return current().read_bytes() if current().exists() else b""


def write(content: bytes) -> None:
    FOLDER.mkdir(parents=True, exist_ok=True)
    unfinished = current().with_suffix(".part")
    unfinished.write_bytes(content)
    unfinished.replace(current())


def current() -> Path:
    return FOLDER / f"{DIGEST}.json"
