"""The keys under `fleet`: where NATS is, who this host is, and how both are believed."""

from __future__ import annotations

import re
from typing import Annotated, TypeAlias

from pydantic import AfterValidator, Field

from hotseat.catalog.template import address_of, split_url
from hotseat.config.schema_base import AsList, AsMapping, AsText, Form, TextListOrMapping, TextOrMapping, Words
from hotseat.config.secrets import is_key
from hotseat.fleet.host_proof import MOST_SECRETS

_HOST_NAME = re.compile(r"[A-Za-z0-9_-]+(?:\.[A-Za-z0-9_-]+)*")
LONGEST_NAME = 253


def is_host_name(name: str) -> bool:
    return len(name) <= LONGEST_NAME and bool(_HOST_NAME.fullmatch(name))


def _host_name(name: str) -> str:
    if name and not is_host_name(name):
        raise ValueError("must consist of letters, digits, -, _ and inner dots")
    return name


def nats_url(url: str) -> str:
    """A server of NATS; ValueError says what is wrong without repeating it, for it may hold a password."""
    parts = split_url(url if "://" in url else f"nats://{url}")
    if parts.scheme not in ("nats", "tls") or not parts.hostname or parts.path.strip("/"):
        raise ValueError("must be nats://host:port or tls://host:port")
    if parts.username or parts.password:
        raise ValueError("must not contain a user or a password: use fleet.user and fleet.password")
    return f"{parts.scheme}://{parts.netloc}"


def _nats_urls(urls: str | tuple[str, ...]) -> tuple[str, ...]:
    each = (urls,) if isinstance(urls, str) else urls
    if not each:
        raise ValueError("must name a server")
    return tuple(map(nats_url, each))


def _address(address: str) -> str:
    parts = split_url(address)
    if address and (parts.scheme not in ("http", "https") or not parts.hostname or parts.path.strip("/")):
        raise ValueError("must be http://host:port or https://host:port")
    if address:
        address_of(address)
    return address.rstrip("/")


def _secret(secret: str) -> str:
    if not is_key(secret):
        raise ValueError("a secret must not be empty or contain spaces")
    return secret


class SecretForm(Form):
    file: Annotated[str, Field(min_length=1)]
    """A file that holds nothing else."""


SecretText: TypeAlias = Annotated[str, AfterValidator(_secret)]
Secret: TypeAlias = Annotated[Annotated[SecretText, AsText] | Annotated[SecretForm, AsMapping], TextOrMapping]
"""A text, `${env.NAME}` in it or not, or where it is."""


def _one_or_two(secrets: tuple[str | SecretForm, ...]) -> tuple[str | SecretForm, ...]:
    if not 1 <= len(secrets) <= MOST_SECRETS:
        raise ValueError("must be one secret, or two during a rotation")
    return secrets


Secrets: TypeAlias = Annotated[
    Annotated[SecretText, AsText]
    | Annotated[SecretForm, AsMapping]
    | Annotated[tuple[Secret, ...], AfterValidator(_one_or_two), AsList],
    TextListOrMapping,
]


class FleetTlsForm(Form):
    ca: str = ""
    """File with the authorities that NATS' certificate is checked against; without it, the machine's."""
    cert: str = ""
    """File with our own certificate, where NATS asks for one (PEM)."""
    key: str = ""
    """File with its key, where that is a file of its own."""


class FleetForm(Form):
    nats: Annotated[Words, AfterValidator(_nats_urls)]
    """Servers of NATS through which the hosts know of each other: `nats://host:4222` or `tls://host:4222`, one or a
    list; the rest of the cluster is found."""
    name: Annotated[str, AfterValidator(_host_name)] = ""
    """What this host is called; no two may have the same. Without it, the machine's name."""
    address: Annotated[str, AfterValidator(_address)] = ""
    """How the other hosts reach this one: `http://host:port`. Without it, `listen`, which must then name an address
    that they can reach."""
    labels: dict[str, str] = Field(default_factory=dict)
    """What this host has or is, for `models.*.hosts` to ask for."""
    secret: Secrets | None = None
    """By which hosts believe each other, the same on all of them: a text or `{file: …}`. Two of them, in a list, while
    one takes the place of the other."""
    user: str = ""
    """Name with which NATS knows us."""
    password: Secret | None = None
    """Its password: a text or `{file: …}`."""
    token: Secret | None = None
    """In place of user and password: a text or `{file: …}`."""
    credentials: str = ""
    """In place of them: file with a JWT and its key, as `nsc` writes it."""
    nkey: str = ""
    """In place of them: file with the seed of an NKey."""
    tls: FleetTlsForm = FleetTlsForm()
    """Certificates towards NATS."""


class ReplicasForm(Form):
    min: Annotated[int, Field(ge=0)] = 0
    """On how many hosts of a fleet the model is kept loaded."""
    max: Annotated[int, Field(ge=1)] | None = None
    """On how many it may be loaded at a time; without it, 1 or min."""
