"""The keys under `fleet`: the NATS servers, this host's identity, and how both authenticate."""

import re
from typing import Annotated, TypeAlias

from pydantic import AfterValidator, Field

from hotseat.catalog.template import address_of, split_url
from hotseat.config.schema_base import (
    AsList,
    AsMapping,
    AsText,
    Form,
    TextListOrMapping,
    TextOrMapping,
    Words,
    is_key,
    is_password,
)
from hotseat.fleet.name_owner import is_host_name
from hotseat.fleet.proofs import MOST_SECRETS
from hotseat.identifiers import DEFAULT_PREFIX

_PREFIX = re.compile(r"[A-Za-z0-9_-]+")
LONGEST_PREFIX = 64


def _host_name(name: str) -> str:
    if name and not is_host_name(name):
        raise ValueError("must consist of letters, digits, -, _ and inner dots")
    return name


def _prefix(prefix: str) -> str:
    if len(prefix) > LONGEST_PREFIX or not _PREFIX.fullmatch(prefix):
        raise ValueError(f"must consist of letters, digits, - and _, at most {LONGEST_PREFIX}")
    return prefix


def nats_url(url: str) -> str:
    """Check a NATS URL; the ValueError does not repeat it, because it may hold a password."""
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


def _password(password: str) -> str:
    if not is_password(password):
        raise ValueError("must not be empty or contain control characters")
    return password


class SecretForm(Form):
    file: Annotated[str, Field(min_length=1)]
    """A file that contains only the secret."""


SecretText: TypeAlias = Annotated[str, AfterValidator(_secret)]
Secret: TypeAlias = Annotated[Annotated[SecretText, AsText] | Annotated[SecretForm, AsMapping], TextOrMapping]
"""A text, with or without `${env.NAME}`, or the file that holds it."""
PasswordText: TypeAlias = Annotated[str, AfterValidator(_password)]
Password: TypeAlias = Annotated[Annotated[PasswordText, AsText] | Annotated[SecretForm, AsMapping], TextOrMapping]
"""The same, for NATS."""


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
    """File with the CA certificates for NATS. Default: those of the system."""
    cert: str = ""
    """File with the client certificate, if NATS requires one (PEM)."""
    key: str = ""
    """File with the private key, if it is separate."""


class FleetForm(Form):
    nats: Annotated[Words, AfterValidator(_nats_urls)]
    """NATS servers that connect the hosts: `nats://host:4222` or `tls://host:4222`, one or a list; other servers of
    the cluster are discovered."""
    name: Annotated[str, AfterValidator(_host_name)] = ""
    """Unique name of this host. Default: the host name of the machine."""
    prefix: Annotated[str, AfterValidator(_prefix)] = DEFAULT_PREFIX
    """Keeps fleets apart that use the same NATS account: the names of the fleet's buckets begin with it. Hosts with
    different prefixes never see each other."""
    address: Annotated[str, AfterValidator(_address)] = ""
    """Address at which other hosts reach this one: `http://host:port`. Default: `listen`, which must then be an address
    that they can reach."""
    labels: dict[str, str] = Field(default_factory=dict)
    """Labels of this host, matched by `models.*.hosts`."""
    secret: Secrets | None = None
    """Shared secret with which the hosts authenticate each other: a string or `{file: …}`, the same on all hosts. A
    list of two during a rotation."""
    user: str = ""
    """User name for NATS."""
    password: Password | None = None
    """Password for NATS: a string or `{file: …}`."""
    credentials: str = ""
    """Credentials file for NATS (JWT and key, as written by `nsc`), instead of user and password."""
    tls: FleetTlsForm = FleetTlsForm.model_construct()
    """TLS settings for NATS."""


class ReplicasForm(Form):
    min: Annotated[int, Field(ge=0)] = 0
    """Minimum number of hosts that keep the model loaded."""
    max: Annotated[int, Field(ge=1)] | None = None
    """Maximum number of hosts that load the model. Default: 1 or min."""
