"""The fleet settings, and what must hold before this host joins."""

from __future__ import annotations

import socket
from dataclasses import replace
from types import MappingProxyType
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from msgspec import structs

from hotseat.config.fleet_schema import FleetForm, SecretForm
from hotseat.config.schema_base import is_key, is_password
from hotseat.config.secrets import secret_in
from hotseat.config.units import is_loopback
from hotseat.fleet.name_owner import is_host_name
from hotseat.identifiers import HostName
from hotseat.settings import Fleet, NatsLogin

if TYPE_CHECKING:
    from collections.abc import Callable

    from hotseat.config.problems import Path as Place
    from hotseat.config.problems import Problems
    from hotseat.config.schema import Config
    from hotseat.settings import Settings

SHORTEST_SECRET = 16
"""In random letters and digits."""
EVERYWHERE = ("0.0.0.0", "::")


class FleetMaker:
    """Makes the settings of a fleet and reports errors that involve several keys."""

    def __init__(self, config: Config, problems: Problems) -> None:
        self._config = config
        self._problems = problems

    def fleet(self) -> Fleet | None:
        form = self._config.fleet
        if form is None:
            self._warn_of_effectless()
            return None
        self._check_logins(form)
        if form.secret is None:
            said = "secret is missing: without it a host cannot authenticate the other hosts"
            self._problems.error(("fleet",), said, "Generate one and use it on all hosts: openssl rand -hex 32")
        return Fleet(
            nats=tuple(form.nats),
            name=HostName(form.name or self._machine()),
            address=form.address,
            labels=MappingProxyType(form.labels),
            secrets=self._secrets(form.secret),
            login=self._login(form),
            prefix=form.prefix,
        )

    def warn_of_address(self, settings: Settings) -> None:
        """Only warn here: the command line may still set the address."""
        if said := unreachable(settings):
            self._problems.warn(("fleet",), said, "Set fleet.address or listen")

    def _login(self, form: FleetForm) -> NatsLogin:
        return NatsLogin(
            user=form.user,
            password=self._read(form.password, ("fleet", "password"), is_password),
            credentials=form.credentials,
            ca=form.tls.ca,
            cert=form.tls.cert,
            key=form.tls.key,
        )

    def _secrets(self, given: str | SecretForm | tuple[str | SecretForm, ...] | None) -> tuple[str, ...]:
        """One secret, or two during a rotation. A short one can be guessed from what it signs."""
        place: Place = ("fleet", "secret")
        if isinstance(given, tuple):
            secrets = [self._long(secret, (*place, n)) for n, secret in enumerate(given)]
        else:
            secrets = [self._long(given, place)]
        return tuple(filter(None, secrets))

    def _long(self, given: str | SecretForm | None, place: Place) -> str:
        secret = self._read(given, place)
        if 0 < len(secret) < SHORTEST_SECRET:
            said = f"is too short: anyone who reads NATS can guess {len(secret)} characters"
            self._problems.warn(place, said, "Generate a longer one: openssl rand -hex 32")
        return secret

    def _read(self, secret: str | SecretForm | None, place: Place, is_valid: Callable[[str], bool] = is_key) -> str:
        if isinstance(secret, SecretForm):
            return secret_in(secret.file, (*place, "file"), self._problems, is_valid)
        return secret or ""

    def _machine(self) -> str:
        name = socket.gethostname()
        if not is_host_name(name):
            self._problems.error(
                ("fleet",), f'the name of this machine, "{name}", is not a valid host name', "Set fleet.name"
            )
        return name

    def _check_logins(self, form: FleetForm) -> None:
        if form.user and form.credentials:
            self._problems.error(("fleet", "credentials"), "user and credentials cannot be combined", "Keep one")
        if form.password and not form.user:
            self._problems.error(("fleet", "password"), "a password needs a user")
        if form.tls.key and not form.tls.cert:
            self._problems.error(("fleet", "tls", "key"), "a key needs its certificate: set cert")

    def _warn_of_effectless(self) -> None:
        for name, form in self._config.models.items():
            for key in ("replicas", "hosts"):
                if key in form.model_fields_set:
                    self._problems.warn(("models", name, key), "has no effect without fleet")


def unreachable(settings: Settings) -> str | None:
    """Say why no other host could reach this one; None if they could."""
    fleet, (host, port) = settings.fleet, settings.listen
    if fleet is None or fleet.address or _is_on_one_machine(fleet):
        return None
    if host not in EVERYWHERE and not is_loopback(host):
        return None
    shown = f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
    return f"other hosts cannot reach this one at {shown}"


def refuse_fleet(settings: Settings) -> str | None:
    """Say what to do before this host may join; None if it may."""
    if said := unreachable(settings):
        return f"{said}. Set fleet.address to an address they can reach, such as http://gpu1.lan:{settings.listen[1]}."
    if settings.fleet and not is_host_name(settings.fleet.name):
        return f'"{settings.fleet.name}" is not a valid host name. Set fleet.name.'
    if settings.fleet and not settings.fleet.secrets:
        return "A fleet needs fleet.secret, the same on all of its hosts. Make one with: openssl rand -hex 32"
    return None


def with_address(settings: Settings) -> Settings:
    """The settings with the address at which other hosts reach this one, if it follows from the listen address."""
    if settings.fleet is None or settings.fleet.address or unreachable(settings):
        return settings
    host, port = settings.listen
    host = "127.0.0.1" if host in EVERYWHERE else host
    scheme = "https" if settings.tls else "http"
    address = f"{scheme}://{f'[{host}]' if ':' in host else host}:{port}"
    return structs.replace(settings, fleet=replace(settings.fleet, address=address))


def _is_on_one_machine(fleet: Fleet) -> bool:
    """If NATS is reached on the loopback interface, all hosts of the fleet are on this machine."""
    return all(is_loopback(urlsplit(url).hostname or "") for url in fleet.nats)
