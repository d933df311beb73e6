"""Who can reach us: an address of other machines needs keys, or somebody who says that none are meant."""

from __future__ import annotations

from typing import TYPE_CHECKING

from hotseat.config.units import is_loopback

if TYPE_CHECKING:
    from hotseat.settings import Settings


def refuse_open(settings: Settings) -> str | None:
    """The sentence that says what to do before this address may be served; None where it may."""
    host, port = settings.listen
    if is_loopback(host) or settings.access.allow_open or settings.access.api_keys:
        return None
    address = f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
    return (
        f"{address} can be reached from other machines and no apiKeys are configured. "
        f"Add apiKeys, listen on 127.0.0.1:{port}, or set allowOpen: true if everybody may use and stop your models."
    )
