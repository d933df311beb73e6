"""The proxies of the comparison: hotseat with all features, and others that do less."""

from __future__ import annotations

import os
import shlex
import subprocess
import sys
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

import yaml
from bench.relay.pythons import earlier, hotseat, rivals, version_in
from bench.relay.tools import CACHE, HERE, REPOSITORY, bench_command, is_stale, llama_command, program, run

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


RENEWS_AFTER = 99
"""Repeated here and not imported, so that the check does not follow a change of the code."""


def launch_hotseat(folder: Path, port: int, backs: Backs) -> Launch:
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


def hotseat_version() -> str:
    return version_in(hotseat(), "hotseat")


def at(revision: str) -> Proxy:
    """hotseat as it was in this revision."""

    def launch_earlier(folder: Path, port: int, backs: Backs) -> Launch:
        return served(earlier(revision), folder, port, backs)

    return replace(HOTSEAT, name=f"hotseat-{revision}", title=f"hotseat at {revision}", launch=launch_earlier)


HOTSEAT = Proxy(
    "hotseat", "hotseat, all duties", launch_hotseat, hotseat_version, starts_upstreams=True, renews_after=RENEWS_AFTER
)


NGINX_CONFIG = """
{user}daemon off;
worker_processes 1;
pid {folder}/nginx.pid;
error_log {folder}/error.log;
events {{ worker_connections 16384; }}
http {{
  access_log off;
  client_body_temp_path {folder}/body;
  proxy_temp_path {folder}/proxy;
  fastcgi_temp_path {folder}/fastcgi;
  uwsgi_temp_path {folder}/uwsgi;
  scgi_temp_path {folder}/scgi;
  keepalive_requests 1000000000;
  client_max_body_size 64m;
  upstream bench {{ server 127.0.0.1:{bench}; keepalive 4096; keepalive_requests 1000000000; }}
  upstream llama {{ server 127.0.0.1:{llama}; keepalive 64; keepalive_requests 1000000000; }}
  server {{
    listen 127.0.0.1:{port} backlog=4096;
    proxy_http_version 1.1;
    proxy_set_header Connection "";
    proxy_set_header X-Forwarded-For $remote_addr;
    proxy_buffering off;
    proxy_request_buffering off;
    location / {{ proxy_pass http://bench; }}
    location /completion {{ proxy_pass http://llama; }}
  }}
}}
"""


def launch_nginx(folder: Path, port: int, backs: Backs) -> Launch:
    user = "user root;\n" if os.geteuid() == 0 else ""  # its worker must be able to read the folder
    config = folder / "nginx.conf"
    config.write_text(
        NGINX_CONFIG.format(user=user, folder=folder, port=port, bench=backs.bench, llama=backs.llama or backs.bench)
    )
    return Launch([program("nginx"), "-p", str(folder), "-c", str(config)])


def nginx_version() -> str:
    said = subprocess.run([program("nginx"), "-v"], capture_output=True, text=True, check=True).stderr
    return said.strip().rpartition("/")[2]


NGINX = Proxy("nginx", "nginx, proxy_pass", launch_nginx, nginx_version)


# Without http-no-delay every streamed event waits for the next one, 100 ms and more.
HAPROXY_CONFIG = """
global
  nbthread 1
  maxconn 5000
defaults
  mode http
  timeout connect 5s
  timeout client 10m
  timeout server 10m
  option http-no-delay
  option http-buffer-request
  option abortonclose
  http-reuse always
frontend relay
  bind 127.0.0.1:{port} backlog 4096
  http-request set-var(txn.model) req.body,json_query('$.model')
  option forwardfor
  use_backend %[var(txn.model)]
backend bench
  server bench 127.0.0.1:{bench} pool-max-conn 4096
backend llama
  server llama 127.0.0.1:{llama} pool-max-conn 64
"""


def launch_haproxy(folder: Path, port: int, backs: Backs) -> Launch:
    config = folder / "haproxy.cfg"
    config.write_text(HAPROXY_CONFIG.format(port=port, bench=backs.bench, llama=backs.llama or backs.bench))
    return Launch([program("haproxy"), "-db", "-f", str(config)])


def haproxy_version() -> str:
    said = subprocess.run([program("haproxy"), "-v"], capture_output=True, text=True, check=True).stdout
    return said.split()[2]


HAPROXY = Proxy("haproxy", "HAProxy, json_query", launch_haproxy, haproxy_version)


def launch_go(folder: Path, port: int, backs: Backs) -> Launch:
    return Launch([str(go_program()), *go_arguments(port, backs)], {"GOMAXPROCS": "1"})


def launch_tuned(folder: Path, port: int, backs: Backs) -> Launch:
    return Launch([str(go_program()), "-pool", *go_arguments(port, backs)], {"GOMAXPROCS": "1", "GOGC": "800"})


def go_arguments(port: int, backs: Backs) -> list[str]:
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


def go_version() -> str:
    said = subprocess.run([go(), "version"], capture_output=True, text=True, check=True).stdout
    return said.split()[2].removeprefix("go")


GO = Proxy("go", "Go ReverseProxy, default", launch_go, go_version)
GO_TUNED = Proxy("go-tuned", "Go ReverseProxy, BufferPool, GOGC=800", launch_tuned, go_version)


def launch_aiohttp(folder: Path, port: int, backs: Backs) -> Launch:
    models = [f"{model}={url}" for model, url in backs.urls().items()]
    # -P: the program must not import the modules beside it.
    return Launch([str(rivals() / "bin/python"), "-P", str(HERE / "aiohttp_program.py"), str(port), *models])


def aiohttp_version() -> str:
    return version_in(rivals(), "aiohttp")


AIOHTTP = Proxy("aiohttp", "aiohttp on both sides, uvloop", launch_aiohttp, aiohttp_version)


PROXIES = {proxy.name: proxy for proxy in (NGINX, HAPROXY, HOTSEAT, GO_TUNED, GO, AIOHTTP)}
