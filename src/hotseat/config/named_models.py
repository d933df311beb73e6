"""Names of peers' models, selectors and profiles, checked against the names of local models."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from types import MappingProxyType
from typing import TYPE_CHECKING

from hotseat.catalog.named_models import Profile, RemoteModel, Selector, Strategy
from hotseat.catalog.spec import ModelSpec
from hotseat.catalog.template import address_of
from hotseat.config.problems import dotted, nearest
from hotseat.config.specs import body_changes, timeouts
from hotseat.identifiers import Address, ModelName

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

    from hotseat.catalog.catalog import Catalog
    from hotseat.config.model_schema import PeerForm, ProfileForm, SelectorForm
    from hotseat.config.problems import Path, Problems
    from hotseat.config.schema import Config

PROXY_VARIABLES = ("HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "http_proxy", "https_proxy", "all_proxy")
NOWHERE = Address("localhost", 0)


class NamedModelMaker:
    """Adds peers' models, selectors and profiles to a catalog of local models."""

    def __init__(self, config: Config, names: Collection[str], problems: Problems) -> None:
        self._config = config
        self._names = names
        self._problems = problems

    def complete(self, catalog: Catalog) -> Catalog:
        """Peers first, then selectors, which may target them, then profiles, which may pin both."""
        catalog = replace(catalog, remotes=MappingProxyType(self._remotes(catalog)))
        catalog = replace(catalog, selectors=MappingProxyType(self._selectors(catalog)))
        profiles = {name: self._profile(name, form, catalog) for name, form in self._config.profiles.items()}
        return replace(catalog, profiles=MappingProxyType(profiles))

    # Peers

    def _remotes(self, catalog: Catalog) -> dict[str, RemoteModel]:
        """A full name always means its peer's model; a bare one does if one peer has it and no local model does."""
        found: dict[str, RemoteModel] = {}
        for peer, form in self._config.peers.items():
            address = self._address(peer, form)
            for position, model in enumerate(form.models):
                self._refuse_reserved(f"{peer}/{model}", catalog, ("peers", peer, "models", position))
                found[f"{peer}/{model}"] = self._remote(peer, model, form, address)
        offered = Counter(name for form in self._config.peers.values() for name in set(form.models))
        bare = {remote.changes.model_name: remote for remote in found.values()}
        for name, remote in bare.items():
            if name is not None and offered[name] == 1 and catalog.find(name) is None and name not in found:
                found[name] = remote
        return found

    def _address(self, peer: str, form: PeerForm) -> Address:
        try:
            return address_of(form.proxy)
        except ValueError as problem:
            self._problems.error(("peers", peer, "proxy"), str(problem))
            return NOWHERE

    def _refuse_reserved(self, name: str, catalog: Catalog, path: Path) -> None:
        if spec := catalog.find(name):
            own = dotted(("models", spec.name))
            self._problems.error(path, f'"{name}" is already {own} or an alias of it', "Rename the model or the peer")

    def _remote(self, peer: str, model: str, form: PeerForm, address: Address) -> RemoteModel:
        changes = body_changes(form.filters, model)
        by_name = form.filters.set_params_by_id.get(model, {})
        return RemoteModel(
            name=ModelName(f"{peer}/{model}"),
            peer=peer,
            address=address,
            changes=changes.adding(by_name),
            api_key=form.api_key,
            timeouts=timeouts(form.timeouts),
        )

    # Selectors

    def _selectors(self, catalog: Catalog) -> dict[str, Selector]:
        return {name: self._selector(name, form, catalog) for name, form in self._config.selectors.items()}

    def _selector(self, name: str, form: SelectorForm, catalog: Catalog) -> Selector:
        path: Path = ("selectors", name)
        remote = catalog.remotes.get(name)
        if catalog.find(name) or (remote and remote.name == name):  # a local name wins over a peer's bare name
            self._problems.error(path, f'"{name}" is already the name of a model', "Choose another name")
        targets = tuple(
            target
            for position, target in enumerate(form.targets)
            if self._is_target(target, catalog, (*path, "targets", position))
        )
        selector = Selector(
            name=name,
            strategy=Strategy(form.strategy),
            targets=targets,
            spillover=form.settings.spillover,
            title=form.name,
            description=form.description,
            unlisted=form.unlisted,
            metadata=MappingProxyType(form.metadata),
        )
        if selector.strategy is Strategy.SPILLOVER:
            self._check_spillover(selector, catalog, (*path, "targets"))
        return selector

    def _is_target(self, target: str, catalog: Catalog, path: Path) -> bool:
        if target in self._config.selectors:
            self._problems.error(path, f'"{target}" is a selector', "Name its targets instead")
            return False
        if catalog.named_model(target) is not None:
            return True
        self._refuse_unknown(target, catalog, path)
        return False

    def _refuse_unknown(self, name: str, catalog: Catalog, path: Path) -> None:
        if catalog.named_model(name) is None and name not in self._names:  # an invalid model has its own error
            self._problems.error(path, f'no model is called "{name}"', nearest(name, catalog.names()))

    def _check_spillover(self, selector: Selector, catalog: Catalog, path: Path) -> None:
        """Spillover to the next target works only if that target can run together with the previous one."""
        names = [named_model.name for named_model in catalog.choices(selector)]
        for name, times in Counter(names).items():
            if times > 1:
                self._problems.error(path, f'"{name}" is a target twice', "Each target must be a different model")
        own = [named_model.name for named_model in catalog.choices(selector) if isinstance(named_model, ModelSpec)]
        for wanted in dict.fromkeys(own):
            others = [name for name in own if name != wanted]
            if alone := catalog.groups.pushed_out(wanted, others):
                hint = "Let them run together with groups, a matrix or devices"
                return self._problems.error(path, f'loading "{wanted}" unloads "{alone[0]}"', hint)
        return None

    # Profiles

    def _profile(self, name: str, form: ProfileForm, catalog: Catalog) -> Profile:
        for pinned, target in form.pins.items():
            if target:
                self._refuse_unknown(target, catalog, ("profiles", name, "pins", pinned))
        pins = {pinned: target or "" for pinned, target in form.pins.items()}
        return Profile(name, form.description, MappingProxyType(pins))


def warn_of_proxies(catalog: Catalog, environ: Mapping[str, str], problems: Problems) -> None:
    """Warn that hotseat never uses a proxy; llama-swap would."""
    if catalog.remotes and (found := [name for name in PROXY_VARIABLES if environ.get(name)]):
        problems.warn(("peers",), f"{found[0]} is set, but has no effect: peers are reached directly")
