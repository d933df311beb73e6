"""A PATH on which every model server is a stand-in that answers at once and says how it was started."""

from __future__ import annotations

import os
import sys
from pathlib import Path

STUB = Path(__file__).parent / "stub_command.py"
SERVERS = ("llama-server", "vllm", "uvx", "whisper-server", "kokoro-fastapi", "comfy", "sd-server", "docker", "podman")


def stub_programs(folder: Path, *more: str) -> dict[str, str]:
    """The variables of an environment in which these programs, and `more`, are stand-ins."""
    programs, names = folder / "bin", folder / "names"
    programs.mkdir()
    names.mkdir()
    for program in (*SERVERS, *more):
        (programs / program).write_text(f"#!{sys.executable} -IS\n{STUB.read_text()}")
        (programs / program).chmod(0o755)
    return {"PATH": f"{programs}:{os.environ['PATH']}", "STUB_NAMES": str(names)}
