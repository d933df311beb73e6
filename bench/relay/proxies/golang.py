"""Go's httputil.ReverseProxy after reading the model from the body (bench/go), untuned and tuned. One core each."""

from __future__ import annotations

import subprocess
from typing import TYPE_CHECKING

from bench.relay.proxies.kinds import Backs, Launch, Proxy
from bench.relay.pythons import rivals
from bench.relay.tools import CACHE, REPOSITORY, is_stale, run

if TYPE_CHECKING:
    from pathlib import Path


def launch(folder: Path, port: int, backs: Backs) -> Launch:
    return Launch([str(go_program()), *arguments(port, backs)], {"GOMAXPROCS": "1"})


def launch_tuned(folder: Path, port: int, backs: Backs) -> Launch:
    return Launch([str(go_program()), "-pool", *arguments(port, backs)], {"GOMAXPROCS": "1", "GOGC": "800"})


def arguments(port: int, backs: Backs) -> list[str]:
    return [f"127.0.0.1:{port}", *(f"{model}={url}" for model, url in backs.urls().items())]


def go_program() -> Path:
    source, target = REPOSITORY / "bench/go", CACHE / "goproxy"
    if is_stale(target, list(source.iterdir())):
        settings = {"GOTOOLCHAIN": "local", "GOPROXY": "off", "GOFLAGS": "", "CGO_ENABLED": "0"}
        caches = {"GOCACHE": str(CACHE / "go-cache"), "GOPATH": str(CACHE / "go-path")}
        run([go(), "build", "-o", str(target), "."], "cannot build bench/go", source, settings | caches)
    return target


def go() -> str:
    return str(next(rivals().glob("lib/python*/site-packages/go/bin/go")))


def version() -> str:
    said = subprocess.run([go(), "version"], capture_output=True, text=True, check=True).stdout
    return said.split()[2].removeprefix("go")


GO = Proxy("go", "Go ReverseProxy, default", launch, version)
GO_TUNED = Proxy("go-tuned", "Go ReverseProxy, BufferPool, GOGC=800", launch_tuned, version)
