"""Builds a Catalog and Settings from a validated configuration."""

from __future__ import annotations

from dataclasses import replace
from functools import cache
from os.path import normpath
from pathlib import Path as FilePath
from types import MappingProxyType
from typing import TYPE_CHECKING, TypeAlias, cast

from msgspec import Struct, structs

from hotseat.catalog.catalog import Catalog, Policy
from hotseat.catalog.groups import ALONE, TOGETHER, Group, Groups
from hotseat.catalog.template import holes
from hotseat.config.conversations import conversations_of
from hotseat.config.crosscheck import CrossCheck, warn_of_open_lists, warn_of_unused
from hotseat.config.fleet import FleetMaker
from hotseat.config.matrix import MatrixMaker
from hotseat.config.named_models import NamedModelMaker
from hotseat.config.problems import Problems, nearest
from hotseat.config.secrets import KeyMaker
from hotseat.config.specs import SpecMaker
from hotseat.estimates.command import container_run
from hotseat.identifiers import ANY_GPU, LOCAL_HOST, Bytes, DeviceName, ModelName, Place
from hotseat.net.listeners import is_here
from hotseat.settings import (
    Access,
    ErrorFormat,
    Limits,
    LogFormat,
    Logging,
    Measuring,
    Readiness,
    Settings,
    Shutdown,
    SignIn,
    TlsFiles,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Iterator, Mapping

    from hotseat.catalog.groups import Matrix
    from hotseat.catalog.spec import LaunchRecipe, ModelSpec
    from hotseat.config.problems import Path
    from hotseat.config.schema import Config

NO_MODELS = "Put GGUF files into the `modelsDir` folder, or run `hotseat pull ORG/REPO`"
A_DAY_S = 86_400.0
PRIORITIES: Path = ("routing", "scheduler", "settings", "fifo", "priority")
MOST_STEPS = 6
"""Beyond 64 times the weight, more would only starve the rest."""


class Built(Struct, frozen=True):
    catalog: Catalog
    settings: Settings


FindDevices: TypeAlias = "Callable[[], Mapping[DeviceName, Bytes]]"
"""Returns how much memory models may use on each device of this machine."""


def no_devices() -> Mapping[DeviceName, Bytes]:
    """For callers that only read the configuration, on a machine that need not be the one it is written for."""
    return {}


def build(config: Config, names: Collection[str], problems: Problems, find_devices: FindDevices = no_devices) -> Built:
    """Build the catalog and the settings. `names` are all models in the file, including those with errors."""
    checks = CrossCheck(config, names, problems)
    budgets = _budgets(config, problems, find_devices)
    checks.names()
    checks.sign_in()
    checks.addresses()
    checks.routing()
    checks.memory(budgets)
    catalog = _catalog(config, budgets, names, problems)
    checks.exclusive(catalog.groups)
    checks.preload(catalog)
    warn_of_unused(config, (), problems)
    warn_of_open_lists(config, problems)
    fleet = FleetMaker(config, problems)
    settings = structs.replace(_settings(config, KeyMaker(catalog, problems)), fleet=fleet.fleet())
    fleet.warn_of_address(settings)
    return Built(catalog, settings)


def _catalog(config: Config, budgets: Mapping[Place, Bytes], names: Collection[str], problems: Problems) -> Catalog:
    maker = SpecMaker(config, budgets, urgencies(config, names, problems), problems)
    models = {ModelName(name): maker.spec(name, form) for name, form in config.models.items()}
    if not models and not problems.has_errors:
        problems.warn(("models",), "no model is defined", NO_MODELS if config.models_dir else "")
    catalog = Catalog(
        models=MappingProxyType(models),
        groups=replace(_groups(config, budgets, _matrix(config, names, problems)), exclusive=_exclusive(models)),
        budgets=budgets,
        policy=_policy(config),
    )
    default = catalog.find(config.default_model)
    catalog = NamedModelMaker(config, names, problems).complete(catalog)
    return replace(
        catalog,
        default_model=default.name if default else None,
        returns_to_default=config.return_to_default,
        preload=_preload(config, catalog, problems),
    )


def urgencies(config: Config, names: Collection[str], problems: Problems) -> Mapping[str, float]:
    """Urgency by model. Only the order of the priorities counts: people write 1 and 2 as well as 10 and 100."""
    priorities = config.routing.scheduler.settings.fifo.priority
    owner = {alias: name for name, form in config.models.items() for alias in form.aliases}
    found: dict[str, int] = {}
    for name, priority in priorities.items():
        if name in names or name in owner:
            found[owner.get(name, name)] = priority
        else:
            known = [*names, *owner]
            problems.error((*PRIORITIES, name), f'no model is called "{name}"', nearest(name, known))
    steps = _steps(found.values())
    return {name: 2.0 ** steps[priority] for name, priority in found.items()}


def _steps(priorities: Iterable[int]) -> dict[int, int]:
    """How many distinct priorities are between each one and 0, the default."""
    levels = sorted({0, *priorities})
    ground = levels.index(0)
    return {level: max(-MOST_STEPS, min(MOST_STEPS, n - ground)) for n, level in enumerate(levels)}


def _policy(config: Config) -> Policy:
    scheduler = config.scheduler
    return Policy(scheduler.patience, scheduler.max_queue, scheduler.max_wait, config.read_ahead)


def _budgets(config: Config, problems: Problems, find_devices: FindDevices) -> Mapping[Place, Bytes]:
    budgets = {}
    if isinstance(config.devices, str):
        found = find_devices()
        if not found:
            hint = "List the devices: gpu0: {memory: 24GiB}"
            problems.error(("devices",), "auto finds no device whose memory is known here", hint)
        return MappingProxyType({Place(LOCAL_HOST, name): size for name, size in found.items()})
    for name, device in config.devices.items():
        if name == ANY_GPU.device:
            problems.error(("devices", name), "gpus is not the name of one device", "Call it gpu0")
        if device.reserve >= device.memory:
            problems.error(("devices", name, "reserve"), "reserve leaves nothing of the device's memory")
        budgets[Place(LOCAL_HOST, DeviceName(name))] = max(0, device.memory - device.reserve)
    return MappingProxyType(budgets)


def _groups(config: Config, budgets: Mapping[Place, Bytes], matrix: Matrix | None) -> Groups:
    if matrix is not None:
        return Groups(default=TOGETHER, matrix=matrix)
    router = config.routing.router
    forms = config.groups or (router.settings.groups if router.use == "group" else {})
    groups = tuple(
        Group(name, form.swap, form.exclusive, form.persistent, tuple(map(ModelName, form.members)))
        for name, form in forms.items()
    )
    return Groups(groups, TOGETHER if budgets else ALONE)


def _exclusive(models: Mapping[ModelName, ModelSpec]) -> Mapping[str, tuple[ModelName, ...]]:
    """What only one process can use, with the models that use it, if there are several."""
    users: dict[str, list[ModelName]] = {}
    is_ours = cache(is_here)  # many models have the same host
    for name, spec in models.items():
        for what in _used_alone(spec.recipe, is_ours):
            users.setdefault(what, []).append(name)
    return MappingProxyType({what: tuple(names) for what, names in users.items() if len(names) > 1})


def _used_alone(recipe: LaunchRecipe, is_ours: Callable[[str], bool]) -> Iterator[str]:
    address = recipe.fixed_address
    if address and address.unix_path:
        yield f"the address unix:{normpath(address.unix_path)}"
    elif address and is_ours(address.host):  # a server elsewhere may serve several models
        yield f"the address localhost:{address.port}"
    run = container_run(recipe.argv)
    for name in run.values("--name")[-1:] if run else ():
        if not holes(name):
            yield f"the container name {name}"


def _matrix(config: Config, names: Collection[str], problems: Problems) -> Matrix | None:
    """The matrix, if the file has one at the top level or selects it under `routing`."""
    if "matrix" in config.model_fields_set:
        form, path = config.matrix, cast("Path", ("matrix",))
    elif config.routing.router.use == "matrix":
        form, path = config.routing.router.settings.matrix, ("routing", "router", "settings", "matrix")
    else:
        return None
    pinned = [ModelName(name) for name, model in config.models.items() if model.pinned]
    return MatrixMaker(form, names, path, problems).matrix(pinned)


def _preload(config: Config, catalog: Catalog, problems: Problems) -> tuple[ModelName, ...]:
    found: dict[ModelName, None] = {}
    for position, name in enumerate(config.hooks.on_startup.preload):
        if spec := catalog.find(name):
            found[spec.name] = None
            continue
        path = ("hooks", "on_startup", "preload", position)
        if name in catalog.names():
            problems.warn(path, f'"{name}" is not configured on this machine, so it is not preloaded', "Name a model")
        else:
            problems.warn(path, f'no model is called "{name}", nothing is preloaded', nearest(name, catalog.names()))
    return tuple(found)


def _settings(config: Config, maker: KeyMaker) -> Settings:
    return Settings(
        listen=config.listen,
        tls=_tls(config),
        ollama_listen=config.ollama.listen,
        access=_access(config, maker),
        limits=_limits(config),
        readiness=Readiness(config.ready.oldest_wait),
        shutdown=Shutdown(config.shutdown.notice, config.shutdown.drain),
        crash_grace_s=config.crash_grace,
        logging=_logging(config),
        conversations=conversations_of(config.conversations),
        activity_keep_s=config.activity.keep_days * A_DAY_S,
        error_format=ErrorFormat(config.error_format),
        metrics=config.metrics,
        include_aliases_in_list=config.include_aliases_in_list,
        ignore_paths=tuple(config.upstream.ignore_paths),
        measuring=Measuring(not config.performance.disabled, config.performance.every),
        inference_paths=config.inference_paths,
        is_strict=config.passthrough == "strict",
        yield_to=config.yield_to,
        trust_pages=config.upstream.trust_pages,
    )


def _tls(config: Config) -> TlsFiles | None:
    form = config.tls
    return None if form is None else TlsFiles(FilePath(form.cert), FilePath(form.key) if form.key else None)


def _access(config: Config, maker: KeyMaker) -> Access:
    return Access(
        allow_open=config.allow_open,
        allowed_hosts=tuple(config.allowed_hosts),
        allowed_origins=tuple(config.allowed_origins),
        trusted_proxies=tuple(config.trusted_proxies),
        client_header=config.client_header,
        sign_in=SignIn(form.user_header, form.role_header) if (form := config.sign_in) else None,
        api_keys=maker.keys(config.api_keys),
    )


def _logging(config: Config) -> Logging:
    return Logging(config.log_level, config.log_time_format, config.log_to_stdout, LogFormat(config.log_format))


def _limits(config: Config) -> Limits:
    limits = config.limits
    return Limits(
        body=limits.body,
        json_body=limits.json_body,
        uploads=limits.uploads,
        idle_timeout_s=limits.idle_timeout,
    )
