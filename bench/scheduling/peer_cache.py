"""A file with the outcomes of the policies that do not change while ours does, named after the code they depend on."""

from __future__ import annotations

from hashlib import sha256
from pathlib import Path

from hotseat.simulation import trace

HERE = Path(__file__).parent
FOLDER = HERE.parents[1] / ".cache" / "bench-scheduling"
SIMULATOR = Path(trace.__file__).parent
OURS = ("agents", "clairvoyant", "jitter", "mixes", "peer", "policies", "runs", "trace_parts", "workloads")
SOURCES = (
    *(HERE / f"{name}.py" for name in OURS),
    *(SIMULATOR / f"{name}.py" for name in ("replay", "results", "run_log", "scenario", "simulator", "trace")),
)


def read() -> bytes:
    """Empty if nothing was kept for this code."""
    file = current()
    return file.read_bytes() if file.exists() else b""


def write(content: bytes) -> None:
    FOLDER.mkdir(parents=True, exist_ok=True)
    unfinished = current().with_suffix(".part")
    unfinished.write_bytes(content)
    unfinished.replace(current())


def current() -> Path:
    digest = sha256(b"".join(path.read_bytes() for path in SOURCES))
    return FOLDER / f"{digest.hexdigest()[:16]}.json"
