"""Checks across keys: names that clash, inconsistent groups, models that never fit, settings that must not be served.

The latter are checked at startup and at every reload. An address that other machines can reach needs API keys or an
explicit `allowOpen`; a fleet needs its secret. Lists that accept every Host or every origin get a warning.
"""

from __future__ import annotations

import re
from dataclasses import replace
from typing import TYPE_CHECKING

from hotseat.activity.usage import digest_of
from hotseat.catalog.spec import NOTHING
from hotseat.config.fleet import EVERYWHERE, refuse_fleet
from hotseat.config.problems import Path, Problems, dotted, nearest
from hotseat.config.schema_base import Form, Ignored, Later
from hotseat.config.units import address_text, is_loopback, size_text
from hotseat.identifiers import LOCAL_HOST, RAM, Bytes, DeviceName, Place
from hotseat.net.listeners import is_here

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

    from pydantic.fields import FieldInfo

    from hotseat.catalog.catalog import Catalog
    from hotseat.catalog.groups import Groups
    from hotseat.config.model_schema import GroupForm, ModelForm
    from hotseat.config.schema import Config
    from hotseat.identifiers import Address
    from hotseat.settings import Access, Settings

SMALLER = "Raise the budget or choose a smaller quantisation"
NOT_IN_URLS = re.compile(r"[\x00-\x1f\x7f\\]|(?:^|/)\.{1,2}(?:[/;]|$)")
OPEN_HOSTS = {
    "*": "accepts every Host header, so a malicious web page can use everything that needs no key (DNS rebinding); "
    "list the names that clients use instead"
}
OPEN_ORIGINS = {
    "*": "lets any web page use your models; list the allowed origins instead",
    "null": "is the origin of every sandboxed page, including those of model servers, so it may only use models",
}


class CrossCheck:
    """`names` are all models in the file, including invalid ones, so that one mistake gives one error."""

    def __init__(self, config: Config, names: Collection[str], problems: Problems) -> None:
        self._config = config
        self._names = names
        self._problems = problems

    def names(self) -> None:
        owner: dict[str, Path] = {name: ("models", name) for name in self._names}
        for name, path in owner.items():
            self._check_fits_urls(name, path)
        for name, form in self._config.models.items():
            for position, alias in enumerate(form.aliases):
                self._claim(alias, name, ("models", name, "aliases", position), owner)
        for name, form in self._config.models.items():
            for alias in form.filters.set_params_by_id:
                self._claim(alias, name, ("models", name, "filters", "setParamsByID", alias), owner)
        self._default_model(owner)

    def _claim(self, alias: str, model: str, path: Path, owner: dict[str, Path]) -> None:
        if alias not in owner:
            self._check_fits_urls(alias, path)
            owner[alias] = path
        elif owner[alias][1] != model:
            taken = owner[alias]
            self._problems.error(
                path, f'"{alias}" is already used by {dotted(taken)}, line {self._problems.spot(taken).line}'
            )

    def _check_fits_urls(self, name: str, path: Path) -> None:
        """A model is loaded and unloaded by its name in a path, which must mean the same to every server."""
        if not name:
            self._problems.error(path, "a name must not be empty")
        elif NOT_IN_URLS.search(name):
            why = 'a backslash, a control character, or a part that is "." or ".."'
            self._problems.error(path, f"a name must not contain {why}, because it is part of URLs", "Rename it")

    def _default_model(self, owner: Mapping[str, Path]) -> None:
        wanted = self._config.default_model
        if wanted and wanted not in owner:
            self._problems.error(("defaultModel",), f'no model is called "{wanted}"', nearest(wanted, owner))
        if self._config.return_to_default and not wanted:
            self._problems.warn(("returnToDefault",), "has no effect without defaultModel")

    def sign_in(self) -> None:
        """Headers that anybody may send prove nothing."""
        if self._config.client_header and not self._config.trusted_proxies:
            hint = "Add the proxy that sets it, such as `trustedProxies: [127.0.0.1]` for one on this machine"
            self._problems.warn(("clientHeader",), "has no effect without trustedProxies", hint)
        form = self._config.sign_in
        if form is None:
            return
        if not self._config.trusted_proxies:
            hint = "Name the proxy where users sign in"
            self._problems.error(("signIn",), "has no effect without trustedProxies", hint)
        if form.user_header.lower() == form.role_header.lower():
            self._problems.error(("signIn", "roleHeader"), "is also the header of the user")

    def addresses(self) -> None:
        """Port 0 stands for any free one."""
        listen = self._config.listen
        if self._config.ollama.listen == listen and listen[1]:
            hint = "Choose another port, such as Ollama's 11434"
            self._problems.error(("ollama", "listen"), f"is also the address of listen, {address_text(listen)}", hint)

    # Groups

    def routing(self) -> None:
        given = self._config.model_fields_set
        old = [key for key in ("groups", "matrix") if key in given]
        if len(old) == 2:
            self._problems.error(("matrix",), "groups and matrix cannot be combined", "Keep one of them")
        if old and "routing" in given and "router" in self._config.routing.model_fields_set:
            hint = f"Move {old[0]} to routing.router.settings"
            self._problems.error((old[0],), "cannot be used together with routing.router", hint)
        router = self._config.routing.router
        self._groups(self._config.groups, ("groups",))
        self._groups(router.settings.groups, ("routing", "router", "settings", "groups"))
        if router.use == "memory" and not self._config.devices:
            hint = "One model runs at a time"
            self._problems.warn(("routing", "router", "use"), "memory has no effect without devices", hint)

    def _groups(self, groups: Mapping[str, GroupForm], path: Path) -> None:
        seen: dict[str, Path] = {}
        for group, form in groups.items():
            for position, member in enumerate(form.members):
                self._member(member, (*path, group, "members", position), seen)

    def _member(self, member: str, path: Path, seen: dict[str, Path]) -> None:
        if member not in self._names:
            self._problems.error(path, f'no model is called "{member}"', self._member_hint(member))
        elif member in seen:
            first = seen[member]
            line = self._problems.spot(first).line
            self._problems.error(path, f'"{member}" is already in group {first[-3]}, line {line}')
        seen.setdefault(member, path)

    def _member_hint(self, member: str) -> str:
        for name, form in self._config.models.items():
            if member in form.aliases:
                return f'It is an alias: write "{name}"'
        return nearest(member, self._names)

    def exclusive(self, groups: Groups) -> None:
        """Note which models run one at a time, though groups and memory may allow them together."""
        rules = replace(groups, exclusive=NOTHING)
        for what, (first, *others) in groups.exclusive.items():
            together = [each for each in others if rules.never_beside(each, [first]) is None]
            if together:
                more = f" and {len(together) - 1} more" if len(together) > 1 else ""
                said = f'uses {what}, like "{first}"{more}, so they run one at a time'
                hint = "Give each model its own to run them together"
                self._problems.note(("models", together[0]), said, hint)

    # Memory

    def memory(self, budgets: Mapping[Place, Bytes]) -> None:
        for name, form in self._config.models.items():
            if form.memory is not None and budgets:
                self._fits(("models", name, "memory"), form, budgets)

    def _fits(self, path: Path, form: ModelForm, budgets: Mapping[Place, Bytes]) -> None:
        if form.gpus is not None and isinstance(form.memory, int) and any(place.device != RAM for place in budgets):
            return  # gpus.py checks what its cards have together
        first = next(iter(budgets)).device
        per_device = form.memory if isinstance(form.memory, dict) else {first: form.memory or 0}
        for device, size in per_device.items():
            here = (*path, device) if isinstance(form.memory, dict) else path
            self._fits_device(here, device, size, budgets)

    def _fits_device(self, path: Path, device: str, size: Bytes, budgets: Mapping[Place, Bytes]) -> None:
        budget = budgets.get(Place(LOCAL_HOST, DeviceName(device)))
        if budget is None:
            known = [place.device for place in budgets]
            self._problems.error(path, f'no device is called "{device}"', nearest(device, known))
        elif size > budget:
            self._problems.warn(path, never_fits(size, device, budget), SMALLER)

    # Preload

    def preload(self, catalog: Catalog) -> None:
        """Warn where a later preload unloads an earlier one because both may not be resident at the same time."""
        path: Path = ("hooks", "on_startup", "preload")
        for n, wanted in enumerate(catalog.preload):
            for earlier in catalog.groups.pushed_out(wanted, catalog.preload[:n]):
                hint = "Preload models that may run together"
                self._problems.warn(path, f'loading "{wanted}" unloads "{earlier}"', hint)


def never_fits(size: Bytes, devices: str, budget: Bytes) -> str:
    return f"never fits: needs {size_text(size)}, budget of {devices} is {size_text(budget)}"


def warn_of_own_address(catalog: Catalog, settings: Settings, problems: Problems) -> None:
    """Warn about each model whose server would have to listen where hotseat does, and each peer that is hotseat."""
    found: dict[tuple[str, str], Address | None] = {
        ("models", name): spec.recipe.fixed_address for name, spec in catalog.models.items()
    }
    found |= {("peers", remote.peer): remote.address for remote in catalog.remotes.values()}
    hints = {
        "models": "Use another port in cmd and proxy, or in listen",
        "peers": "Its requests would come back: remove the peer, or correct its address",
    }
    for listen in filter(None, (settings.listen, settings.ollama_listen)):
        for (key, name), address in found.items():
            if address and not address.unix_path and address.port == listen[1] and _meet(address.host, listen[0]):
                said = f"is an address of hotseat itself, which listens on {address_text(listen)}"
                problems.warn((key, name, "proxy"), said, hints[key])


def _meet(one: str, other: str) -> bool:
    """Can only one process listen on a port of both?"""
    if is_loopback(one) and is_loopback(other):
        return True
    return one == other or (is_here(one) and any(host in EVERYWHERE for host in (one, other)))


def warn_of_unused(form: Form, path: Path, problems: Problems) -> None:
    """Warn about each key that has no effect, unless its value describes what happens anyway."""
    given = form.model_fields_set
    for key, name in type(form).known_keys().items():
        if name not in given:
            continue
        field, value = type(form).model_fields[name], getattr(form, name)
        mark = unused(field)
        if mark is None:
            _warn_below(value, (*path, key), problems)
        elif value != field.get_default(call_default_factory=True):
            said, hint = ("not used yet", mark.instead) if isinstance(mark, Later) else ("ignored", mark.why)
            problems.warn((*path, key), said, hint)


def _warn_below(value: object, path: Path, problems: Problems) -> None:
    if isinstance(value, Form):
        warn_of_unused(value, path, problems)
    elif isinstance(value, dict):
        for member, inner in value.items():
            _warn_below(inner, (*path, member), problems)


def unused(field: FieldInfo) -> Later | Ignored | None:
    return next((mark for mark in field.metadata if isinstance(mark, Later | Ignored)), None)


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
