"""The program and the environment of a server."""

from __future__ import annotations

import os
import shutil
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping


def environment(ours: Mapping[str, str], theirs: Iterable[tuple[str, str]]) -> dict[str, str]:
    """hotseat's variables, overridden by the model's."""
    # Number devices like `nvidia-smi`, or gpu0 would be another card than in the configuration.
    return {"CUDA_DEVICE_ORDER": "PCI_BUS_ID", **ours, **dict(theirs)}


def find_program(name: str, env: Mapping[str, str]) -> str:
    """The path of a program; FileNotFoundError or PermissionError with a message for the operator."""
    if found := shutil.which(name, path=env.get("PATH", os.defpath)):
        return found
    if os.sep not in name:
        raise FileNotFoundError(f'no program named "{name}" on PATH')
    if not os.path.exists(name):
        raise FileNotFoundError(f'the file "{name}" does not exist')
    raise PermissionError(f'"{name}" is not executable: run chmod +x')
