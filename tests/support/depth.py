"""How much a test may take: little in every run, and as much as it likes in `just deep`."""

from __future__ import annotations

import os
from typing import TypeVar

T = TypeVar("T")

IS_DEEP = os.environ.get("HYPOTHESIS_PROFILE") == "deep"


def by_depth(usual: T, deep: T) -> T:
    return deep if IS_DEEP else usual
