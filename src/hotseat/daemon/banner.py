"""What `hotseat serve` prints on a terminal: address, models, access. No colours."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from hotseat import __version__

if TYPE_CHECKING:
    from collections.abc import Sequence

    from hotseat.settings import Access

LONGEST = 8
"""Lines; more would scroll other output away."""


@dataclass(frozen=True, slots=True)
class Banner:
    urls: Sequence[str]
    files: Sequence[str]
    models: int
    access: Access
    is_open: bool
    """Can other machines reach it?"""
    has_dashboard: bool = False

    def lines(self) -> list[str]:
        url = self.urls[0]
        rows = [
            ("address", " ".join(self.urls)),
            ("base URL", f"{url}/v1"),
            ("models", f"{self.models}, from {', '.join(self.files)}"),
            ("access", self._access()),
            ("dashboard", f"{url}/hotseat/ui/" if self.has_dashboard else ""),
            ("API", f"{url}/swagger"),
        ]
        told = [f"  {what:11}  {said}" for what, said in rows if said]
        return [f"hotseat {__version__} is ready (Ctrl-C to stop)", *told]

    def _access(self) -> str:
        keys = len(self.access.api_keys)
        if keys:
            return f"{keys} API key{'s'[: keys > 1]} required" + (", open to other machines" if self.is_open else "")
        if self.is_open:
            return "WARNING: anyone on the network can use and stop your models; configure apiKeys to prevent this"
        return "this machine only, no API keys"


def url_of(scheme: str, host: str, port: int) -> str:
    """A URL that works on this machine."""
    host = {"0.0.0.0": "127.0.0.1", "::": "::1"}.get(host, host)
    return f"{scheme}://[{host}]:{port}" if ":" in host else f"{scheme}://{host}:{port}"
