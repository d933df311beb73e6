"""What `hotseat serve` says at startup: a banner without colours on a terminal, log lines elsewhere."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from msgspec import Struct

from hotseat import __version__

if TYPE_CHECKING:
    from collections.abc import Sequence

    from hotseat.settings import Access

log = logging.getLogger(__name__)


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
