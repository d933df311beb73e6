"""Announces a start on standard output: as a banner on a terminal, otherwise as log lines."""

from __future__ import annotations

import logging
import sys
from typing import TYPE_CHECKING

from hotseat.config.units import is_loopback
from hotseat.daemon.banner import Banner
from hotseat.telemetry import logs

if TYPE_CHECKING:
    import socket
    from collections.abc import Sequence

    from hotseat.config.load import Loaded
    from hotseat.relay.server import Relay
    from hotseat.settings import Logging
    from hotseat.startup.preparation import Prepared
    from hotseat.telemetry.stdout_writer import StdoutWriter

log = logging.getLogger(__name__)


def log_warnings(loaded: Loaded) -> None:
    for warning in loaded.problems:
        log.warning("configuration problem=%r", str(warning))


def announce(banner: Banner, settings: Logging, writer: StdoutWriter) -> None:
    if shows_banner(settings):
        writer.put_line("\n".join(banner.lines()))
    else:
        banner.log()


def shows_banner(settings: Logging) -> bool:
    return sys.stdout.isatty() and logs.is_text(settings) and settings.to_stdout in ("proxy", "both")


def banner_of(start: Prepared, loaded: Loaded, relay: Relay) -> Banner:
    addresses, for_ollama = addresses_of(start.sockets), addresses_of(start.ollama_sockets)
    connections, _ = relay.connections.count.bounds(loaded.settings.limits)
    return Banner(
        relay.context.scheme.decode(),
        addresses,
        files=[str(file) for file in loaded.files],
        models=len(loaded.catalog.models),
        access=relay.context.policy.settings.access,
        is_open=not all(is_loopback(host) for host, _ in (*addresses, *for_ollama)),
        for_ollama=for_ollama,
        reduced_connections=connections if connections < loaded.settings.limits.connections else None,
    )


def addresses_of(sockets: Sequence[socket.socket]) -> list[tuple[str, int]]:
    return [sock.getsockname()[:2] for sock in sockets]
