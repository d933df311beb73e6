"""aiohttp as server and client, on uvloop: a typical Python proxy."""

from __future__ import annotations

from typing import TYPE_CHECKING

from bench.relay.proxies.kinds import Backs, Launch, Proxy
from bench.relay.pythons import rivals, version_in
from bench.relay.tools import HERE

if TYPE_CHECKING:
    from pathlib import Path


def launch(folder: Path, port: int, backs: Backs) -> Launch:
    models = [f"{model}={url}" for model, url in backs.urls().items()]
    # -P: the program must import the package aiohttp, not this module beside it.
    return Launch([str(rivals() / "bin/python"), "-P", str(HERE / "proxies/aiohttp_program.py"), str(port), *models])


def version() -> str:
    return version_in(rivals(), "aiohttp")


AIOHTTP = Proxy("aiohttp", "aiohttp on both sides, uvloop", launch, version)
