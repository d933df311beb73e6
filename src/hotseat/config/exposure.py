"""Checks that settings are safe to serve, at startup and at every reload.

An address that other machines can reach needs API keys or an explicit `allowOpen`; a fleet needs its secret. Also warns
about lists that accept every Host or every origin.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from hotseat.activity.usage import digest_of
from hotseat.config.fleet import EVERYWHERE, refuse_fleet
from hotseat.config.units import address_text, is_loopback

if TYPE_CHECKING:
    from hotseat.config.problems import Problems
    from hotseat.config.schema import Config
    from hotseat.settings import Access, Settings

OPEN_HOSTS = {
    "*": "accepts every Host header, so a malicious web page can use everything that needs no key (DNS rebinding); "
    "list the names that clients use instead"
}
OPEN_ORIGINS = {
    "*": "lets any web page use your models; list the allowed origins instead",
    "null": "is the origin of every sandboxed page, including those of model servers, so it may only use models",
}


def refuse_to_serve(settings: Settings) -> str | None:
    """Say what to do before these settings may be served; None if they may."""
    return refuse_addresses(settings) or refuse_fleet(settings) or refuse_ambiguous_keys(settings.access)


def refuse_addresses(settings: Settings) -> str | None:
    """The same for the addresses alone."""
    return refuse_open(settings) or refuse_unencrypted(settings) or refuse_same(settings)


def refuse_open(settings: Settings) -> str | None:
    """Say what to do before these addresses may be served; None if they may."""
    if settings.access.allow_open or settings.access.is_restricted:
        return None
    for address in filter(None, (settings.listen, settings.ollama_listen)):
        host, port = address
        if not is_loopback(host):
            return (
                f"{address_text(address)} can be reached from other machines and no apiKeys are configured. "
                f"Add apiKeys, listen on 127.0.0.1:{port} and run `hotseat keys create` first, or set allowOpen: true "
                "to let anyone use and stop your models."
            )
    return None


def refuse_ambiguous_keys(access: Access) -> str | None:
    """A key of a command and one of the configuration must differ, or nobody knows whose rights count."""
    for created in access.created_keys:
        for key in access.api_keys:
            if created.name == key.name or digest_of(created) == digest_of(key):
                return (
                    f'the API key "{created.name}" exists twice: in apiKeys, and as one of `hotseat keys`. '
                    "Remove or rename it in apiKeys; `hotseat keys revoke` removes the other."
                )
    return None


def refuse_unencrypted(settings: Settings) -> str | None:
    """With a certificate, nobody expects that keys also travel in plain text."""
    address = settings.ollama_listen
    if address is None or settings.tls is None or is_loopback(address[0]):
        return None
    return (
        f"ollama.listen {address_text(address)} is plain HTTP and can be reached from other machines, although tls is "
        f"configured. Set it to 127.0.0.1:{address[1]}; other machines can use Ollama's API at the address of listen."
    )


def refuse_same(settings: Settings) -> str | None:
    """Both cannot have one port of one address, by another name either; of names only localhost is understood."""
    if settings.ollama_listen is None or settings.ollama_listen[1] != settings.listen[1] or settings.listen[1] == 0:
        return None
    one, other = (host.replace("localhost", "127.0.0.1") for host, _ in (settings.listen, settings.ollama_listen))
    is_everywhere = not {one, other}.isdisjoint(EVERYWHERE) and (":" in one) == (":" in other)
    if one != other and not is_everywhere:
        return None
    addresses = f"ollama.listen {address_text(settings.ollama_listen)} and listen {address_text(settings.listen)}"
    return f"{addresses} have the same port. Change one of them; listen serves Ollama's API too."


def warn_of_open_lists(config: Config, problems: Problems) -> None:
    """Warn about each entry that admits more than its author may expect."""
    lists = (
        ("allowedHosts", config.allowed_hosts, OPEN_HOSTS),
        ("allowedOrigins", config.allowed_origins, OPEN_ORIGINS),
    )
    for key, entries, means in lists:
        for position, entry in enumerate(entries):
            if entry in means:
                problems.warn((key, position), f'"{entry}" {means[entry]}')
