"""Announces a start on standard output: as a banner without colours on a terminal, otherwise as log lines."""

from __future__ import annotations

import logging
import sys
from typing import TYPE_CHECKING

from msgspec import Struct

from hotseat import __version__
from hotseat.config.units import is_loopback
from hotseat.telemetry import logs

if TYPE_CHECKING:
    import socket
    from collections.abc import Sequence

    from hotseat.config.load import Loaded
    from hotseat.relay.server import Relay
    from hotseat.settings import Access, Logging
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


class Banner(Struct, frozen=True):
    scheme: str
    addresses: Sequence[tuple[str, int]]
    files: Sequence[str]
    models: int
    access: Access
    is_open: bool
    """Can other machines reach it?"""
    for_ollama: Sequence[tuple[str, int]] = ()
    """Addresses for Ollama's clients."""
    reduced_connections: int | None = None
    """How many connections the file descriptors allow; None: as many as configured."""

    def lines(self) -> list[str]:
        urls = [url_of(self.scheme, host, port) for host, port in self.addresses]
        url = urls[0]
        rows = [
            ("address", " ".join(urls)),
            ("base URL", f"{url}/v1"),
            ("for Ollama", " ".join(url_of("http", host, port) for host, port in self.for_ollama)),
            ("models", f"{self.models}, from {', '.join(self.files)}"),
            ("access", self._access()),
            ("dashboard", f"{url}/hotseat/ui/"),
            ("API", f"{url}/swagger"),
        ]
        shown = [f"  {label:11}  {value}" for label, value in rows if value]
        return [f"hotseat {__version__} is ready (Ctrl-C to stop)", *shown]

    def log(self) -> None:
        log.info("hotseat %s serves %d models from %s", __version__, self.models, ", ".join(self.files))
        for host, port in self.addresses:
            log.info(
                "listening on %s://%s:%d (dashboard at /hotseat/ui/, API at /swagger, Ctrl-C stops)",
                self.scheme,
                host,
                port,
            )
        for host, port in self.for_ollama:
            log.info("listening on http://%s:%d for clients of Ollama (ollama.listen)", host, port)
        if self.reduced_connections is not None:
            log.info("connections are limited by the number of open files connections=%d", self.reduced_connections)

    def _access(self) -> str:
        keys = len(self.access.keys)
        required = [f"{keys} API key{'s'[: keys > 1]}"] if keys else []
        required += ["sign-in"] if self.access.sign_in else []
        if required:
            return f"{' or '.join(required)} required" + (", open to other machines" if self.is_open else "")
        if self.is_open:
            return "WARNING: anyone on the network can use and stop your models; configure apiKeys to prevent this"
        return "this machine only, no API keys"


def url_of(scheme: str, host: str, port: int) -> str:
    """A URL that works on this machine."""
    host = {"0.0.0.0": "127.0.0.1", "::": "::1"}.get(host, host)
    return f"{scheme}://[{host}]:{port}" if ":" in host else f"{scheme}://{host}:{port}"
