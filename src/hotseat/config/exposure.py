"""What must hold before these settings are served, at the start and at every reload.

An address that other machines reach needs keys, or somebody who says that none are meant; a fleet needs its secret.
And what it means to accept every Host and every origin.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from hotseat.config.fleet import refuse_fleet
from hotseat.config.units import is_loopback

if TYPE_CHECKING:
    from hotseat.config.problems import Notebook
    from hotseat.config.schema import Config
    from hotseat.settings import Settings

OPEN_HOSTS = {
    "*": "accepts every Host header, so a malicious web page can use everything that needs no key (DNS rebinding); "
    "list the names that clients use instead"
}
OPEN_ORIGINS = {
    "*": "lets any web page use your models; list the allowed origins instead",
    "null": "is the origin of every sandboxed page, including those of model servers, so it may only use models",
}


def refuse_to_serve(settings: Settings) -> str | None:
    """The sentence that says what to do before these settings may be served; None where they may."""
    return refuse_open(settings) or refuse_fleet(settings)


def refuse_open(settings: Settings) -> str | None:
    """The sentence that says what to do before this address may be served; None where it may."""
    host, port = settings.listen
    if is_loopback(host) or settings.access.allow_open or settings.access.api_keys:
        return None
    address = f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
    return (
        f"{address} can be reached from other machines and no apiKeys are configured. "
        f"Add apiKeys, listen on 127.0.0.1:{port}, or set allowOpen: true to let anyone use and stop your models."
    )


def warn_of_open_lists(config: Config, notebook: Notebook) -> None:
    """One sentence for each entry that lets in more than somebody may think."""
    lists = (
        ("allowedHosts", config.allowed_hosts, OPEN_HOSTS),
        ("allowedOrigins", config.allowed_origins, OPEN_ORIGINS),
    )
    for key, entries, means in lists:
        for position, entry in enumerate(entries):
            if entry in means:
                notebook.warn((key, position), f'"{entry}" {means[entry]}')
