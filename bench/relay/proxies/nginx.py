"""nginx as the lower limit: it forwards requests without reading them, so it cannot choose a model."""

from __future__ import annotations

import os
import subprocess
from typing import TYPE_CHECKING

from bench.relay.proxies.kinds import Backs, Launch, Proxy
from bench.relay.tools import program

if TYPE_CHECKING:
    from pathlib import Path

CONFIG = """
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


def launch(folder: Path, port: int, backs: Backs) -> Launch:
    user = "user root;\n" if os.geteuid() == 0 else ""  # its worker must be able to read the folder
    config = folder / "nginx.conf"
    config.write_text(
        CONFIG.format(user=user, folder=folder, port=port, bench=backs.bench, llama=backs.llama or backs.bench)
    )
    return Launch([program("nginx"), "-p", str(folder), "-c", str(config)])


def version() -> str:
    said = subprocess.run([program("nginx"), "-v"], capture_output=True, text=True, check=True).stderr
    return said.strip().rpartition("/")[2]


NGINX = Proxy("nginx", "nginx, proxy_pass", launch, version)
