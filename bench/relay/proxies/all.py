"""All proxies, in the order of the tables."""

from __future__ import annotations

from bench.relay.proxies.aiohttp import AIOHTTP
from bench.relay.proxies.golang import GO, GO_TUNED
from bench.relay.proxies.haproxy import HAPROXY
from bench.relay.proxies.hotseat import HOTSEAT
from bench.relay.proxies.nginx import NGINX

PROXIES = {proxy.name: proxy for proxy in (NGINX, HAPROXY, HOTSEAT, GO_TUNED, GO, AIOHTTP)}
