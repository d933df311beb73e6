"""The description of a proxy in the comparison."""

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
    """None if no cell needs it."""

    def urls(self) -> dict[str, str]:
        ports = {"bench": self.bench, "llama": self.llama}
        return {name: f"http://127.0.0.1:{port}" for name, port in ports.items() if port}


@dataclass(frozen=True, slots=True)
class Launch:
    argv: list[str]
    environment: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Proxy:
    """A proxy: its title, how it is started, and how it treats its upstreams."""

    name: str
    title: str
    launch: Callable[[Path, int, Backs], Launch]
    """Given its folder, its port and its upstreams; writes its configuration and returns its command line."""
    version: Callable[[], str]
    starts_upstreams: bool = False
    renews_after: int = sys.maxsize
    """Requests after which it opens a new upstream connection on purpose."""
