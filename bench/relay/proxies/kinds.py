"""What every proxy of the comparison tells about itself."""

from __future__ import annotations

import sys
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from pathlib import Path


@dataclass(frozen=True, slots=True)
class Backs:
    """Ports of the upstreams behind a proxy."""

    bench: int
    llama: int | None
    """None where no cell needs it."""

    def urls(self) -> dict[str, str]:
        ports = {"bench": self.bench, "llama": self.llama}
        return {name: f"http://127.0.0.1:{port}" for name, port in ports.items() if port}


@dataclass(frozen=True, slots=True)
class Launch:
    argv: list[str]
    environment: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Proxy:
    """One contestant: how it is called, how it is started, and how it treats its upstreams."""

    name: str
    title: str
    launch: Callable[[Path, int, Backs], Launch]
    """Given a folder of its own, its port and its upstreams; writes its configuration and gives its command line."""
    version: Callable[[], str]
    starts_upstreams: bool = False
    renews_after: int = sys.maxsize
    """Requests after which it takes a new upstream connection on purpose."""
