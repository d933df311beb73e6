"""Models served by the conformance kit's stub: they load, stop and fail exactly as told."""

from __future__ import annotations

import shlex
import sys
from typing import Any

from tests.support.llama import REPOSITORY

STUB = REPOSITORY / "tests/conformance/stub_upstream.py"


def stub(name: str, options: str = "", **settings: object) -> dict[str, Any]:
    """The configuration of one such model."""
    program = f"{shlex.quote(sys.executable)} -I -S {shlex.quote(str(STUB))}"
    return {"cmd": f"{program} --port ${{PORT}} --name {name} {options}".rstrip(), **settings}
