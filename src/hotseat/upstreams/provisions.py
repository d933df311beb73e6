"""What a server is started with: its program, its environment, and which of its arguments nobody else should read."""

from __future__ import annotations

import os
import re
import shutil
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

_SECRET_NAME = re.compile(r"KEY|TOKEN|SECRET|PASSWORD", re.IGNORECASE)
SHORTEST_SECRET = 6
"""Of a variable: hiding every `us` because of KEYBOARD=us would hide the output."""
_SECRET_OPTION = re.compile(r"--?[\w-]*(?:api[-_]?key|token|password|secret)(?:=(?P<value>.*))?", re.IGNORECASE)


def environment(ours: Mapping[str, str], theirs: Iterable[tuple[str, str]]) -> dict[str, str]:
    """Our own variables, then the model's."""
    # Devices are counted as `nvidia-smi` counts them, or gpu0 would be another card here than in the configuration.
    return {"CUDA_DEVICE_ORDER": "PCI_BUS_ID", **ours, **dict(theirs)}


def find_program(name: str, env: Mapping[str, str]) -> str:
    """The path of a program; FileNotFoundError or PermissionError with the sentence for whoever wrote the name."""
    if found := shutil.which(name, path=env.get("PATH", os.defpath)):
        return found
    if os.sep not in name:
        raise FileNotFoundError(f'no program named "{name}" on PATH')
    if not os.path.exists(name):
        raise FileNotFoundError(f'there is no file "{name}"')
    raise PermissionError(f'"{name}" is not a program that may be run: chmod +x makes it one')


def secrets_in(argv: Sequence[str], env: Iterable[tuple[str, str]] = ()) -> Iterator[str]:
    """The values of options such as --api-key, each key where several are joined by commas, and of such variables."""
    yield from (value for name, value in env if _SECRET_NAME.search(name) and len(value) >= SHORTEST_SECRET)
    for word, following in zip(argv, [*argv[1:], ""], strict=True):
        if option := _SECRET_OPTION.fullmatch(word):
            value = following if option["value"] is None else option["value"]
            yield from (part for part in (value, *value.split(",")) if part)
