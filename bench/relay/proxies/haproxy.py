"""HAProxy that routes by the body's `model`: json_query on a buffered request."""

from __future__ import annotations

import subprocess
from typing import TYPE_CHECKING

from bench.relay.proxies.kinds import Backs, Launch, Proxy
from bench.relay.tools import program

if TYPE_CHECKING:
    from pathlib import Path

# Without http-no-delay every streamed event waits for the next one, 100 ms and more.
CONFIG = """
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


def launch(folder: Path, port: int, backs: Backs) -> Launch:
    config = folder / "haproxy.cfg"
    config.write_text(CONFIG.format(port=port, bench=backs.bench, llama=backs.llama or backs.bench))
    return Launch([program("haproxy"), "-db", "-f", str(config)])


def version() -> str:
    said = subprocess.run([program("haproxy"), "-v"], capture_output=True, text=True, check=True).stdout
    return said.split()[2]


HAPROXY = Proxy("haproxy", "HAProxy, json_query", launch, version)
