"""hotseat with all features: it starts the upstreams itself, leases, schedules, counts, checks and records."""

from __future__ import annotations

import shlex
from dataclasses import replace
from typing import TYPE_CHECKING

import yaml
from bench.relay.proxies.kinds import Backs, Launch, Proxy
from bench.relay.pythons import earlier, hotseat, version_in
from bench.relay.upstreams import bench_command, llama_command

if TYPE_CHECKING:
    from pathlib import Path


RENEWS_AFTER = 99
"""Repeated here and not imported, so that the check does not follow a change of the code."""


def launch(folder: Path, port: int, backs: Backs) -> Launch:
    return served(hotseat(), folder, port, backs)


def served(installation: Path, folder: Path, port: int, backs: Backs) -> Launch:
    config = folder / "config.yaml"
    config.write_text(yaml.safe_dump(configuration(backs), sort_keys=False, width=10_000))
    return Launch(
        [str(installation / "bin/hotseat"), "serve", "--config", str(config), "--listen", f"127.0.0.1:{port}"]
    )


def configuration(backs: Backs) -> dict[str, object]:
    """Two models that run at the same time, with a ttl."""
    commands = {"bench": bench_command(backs.bench)}
    if backs.llama:
        commands["llama"] = llama_command(backs.llama)
    urls = backs.urls()
    models = {name: {"cmd": shlex.join(argv), "proxy": urls[name], "ttl": 3600} for name, argv in commands.items()}
    return {
        "models": models,
        "groups": {"together": {"swap": False, "members": list(models)}},
        "hooks": {"on_startup": {"preload": list(models)}},
    }


def version() -> str:
    return version_in(hotseat(), "hotseat")


def at(revision: str) -> Proxy:
    """hotseat as it was in this revision."""

    def launch_earlier(folder: Path, port: int, backs: Backs) -> Launch:
        return served(earlier(revision), folder, port, backs)

    return replace(HOTSEAT, name=f"hotseat-{revision}", title=f"hotseat at {revision}", launch=launch_earlier)


HOTSEAT = Proxy("hotseat", "hotseat, all duties", launch, version, starts_upstreams=True, renews_after=RENEWS_AFTER)
