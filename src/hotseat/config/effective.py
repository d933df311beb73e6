"""The effective configuration as plain data: macros expanded, defaults filled in, secrets removed."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from hotseat.catalog.redaction import HIDDEN, is_secret_name, redacted
from hotseat.catalog.spec import written
from hotseat.config.environment import FREE_FORM
from hotseat.config.units import address_text, size_text
from hotseat.state.key_file import rights_of

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from hotseat.catalog.catalog import Catalog
    from hotseat.catalog.groups import Group, Matrix
    from hotseat.catalog.named_models import Profile, RemoteModel, Selector
    from hotseat.catalog.sleeping import Sleep, SleepLevel
    from hotseat.catalog.spec import BodyChanges, Footprint, LaunchRecipe, ModelSpec, Timeouts
    from hotseat.config.environment import Concealed
    from hotseat.config.load import Loaded
    from hotseat.identifiers import Bytes, Place
    from hotseat.settings import ApiKey, Fleet, Settings

A_DAY_S = 86_400.0
MOST_SETS = 8
"""How many sets of a matrix a sentence lists."""


def resolved(loaded: Loaded) -> dict[str, Any]:
    """The whole configuration as JSON values, without secrets."""
    return _without_environment(_all_of(loaded), loaded.concealed)


def _without_environment(shown: dict[str, Any], concealed: Concealed) -> dict[str, Any]:
    """Remove values that came from the environment; places are keys of a model or of the file."""
    parts = {key: concealed.tree(part, (key,), is_free=True) for key, part in shown.items()}
    parts["settings"] = {key: concealed.tree(part, (key,)) for key, part in shown["settings"].items()}
    parts["models"] = {
        name: {
            key: concealed.tree(part, ("models", name, key), is_free=key in FREE_FORM) for key, part in model.items()
        }
        for name, model in shown["models"].items()
    }
    return parts


def _all_of(loaded: Loaded) -> dict[str, Any]:
    catalog = loaded.catalog
    secrets = secrets_of_settings(loaded)
    return {
        "files": [str(file) for file in loaded.files],
        "modelsDir": str(loaded.models_dir.absolute()) if loaded.models_dir else None,
        "fromModelsDir": loaded.from_models_dir,
        "workingDir": str(Path.cwd()),
        "settings": _settings(loaded.settings),
        "models": {name: _model(spec, secrets, loaded.measured.get(name)) for name, spec in catalog.models.items()},
        "groups": [_group(group) for group in catalog.groups.groups],
        "matrix": _matrix(catalog.groups.matrix),
        "budgets": {str(place): size for place, size in catalog.budgets.items()},
        "scheduler": {
            "patience": catalog.policy.patience,
            "maxWait": catalog.policy.max_wait_s,
            "maxQueue": catalog.policy.max_queue,
        },
        "defaultModel": catalog.default_model,
        "returnToDefault": catalog.returns_to_default,
        "readAhead": catalog.policy.reads_ahead,
        "preload": list(catalog.preload),
        "peers": {name: _remote(remote) for name, remote in catalog.remotes.items() if name == remote.name},
        "selectors": {name: _selector(selector) for name, selector in catalog.selectors.items()},
        "profiles": {name: _profile(profile) for name, profile in catalog.profiles.items()},
        "keepConversations": [name for name, spec in catalog.models.items() if spec.keeps_conversations],
        "withheldEnv": sorted(loaded.withheld_env),
        "concurrency": concurrency(catalog),
    }


def secrets_of_settings(loaded: Loaded) -> tuple[str, ...]:
    """Those that are known by their key: API keys of clients and peers, and the secrets of the fleet."""
    keys = (key.secret for key in loaded.settings.access.api_keys)
    peers = (remote.api_key for remote in loaded.catalog.remotes.values())
    return tuple(filter(None, (*keys, *peers, *_fleet_secrets(loaded.settings.fleet))))


def _settings(settings: Settings) -> dict[str, Any]:
    access, limits, logging = settings.access, settings.limits, settings.logging
    return {
        "listen": address_text(settings.listen),
        "tls": {"cert": str(tls.cert), "key": str(tls.key or "")} if (tls := settings.tls) else None,
        "ollama": {"listen": address_text(settings.ollama_listen) if settings.ollama_listen else None},
        "allowOpen": access.allow_open,
        "allowedHosts": list(access.allowed_hosts),
        "allowedOrigins": list(access.allowed_origins),
        "trustedProxies": list(access.trusted_proxies),
        "clientHeader": access.client_header,
        "signIn": {"userHeader": form.user_header, "roleHeader": form.role_header}
        if (form := access.sign_in)
        else None,
        "apiKeys": [_key(key) for key in access.api_keys],
        "errorFormat": settings.error_format.value,
        "metrics": settings.metrics,
        "includeAliasesInList": settings.include_aliases_in_list,
        "upstream": {"ignorePaths": list(settings.ignore_paths), "trustPages": settings.trust_pages},
        "performance": {"disabled": not settings.measuring.is_on, "every": settings.measuring.every_s},
        "inferencePaths": list(settings.inference_paths),
        "passthrough": "strict" if settings.is_strict else "auto",
        "yieldTo": list(settings.yield_to),
        "fleet": _fleet(settings.fleet) if settings.fleet else None,
        "logLevel": logging.level,
        "logTimeFormat": logging.time_format,
        "logToStdout": logging.to_stdout,
        "logFormat": logging.form.value,
        "conversations": {"disk": settings.conversations.disk},
        "activity": {"keepDays": settings.activity_keep_s / A_DAY_S},
        "ready": {"oldestWait": settings.readiness.oldest_wait_s},
        "shutdown": {"notice": settings.shutdown.notice_s, "drain": settings.shutdown.drain_s},
        "crashGrace": settings.crash_grace_s,
        "limits": {
            "body": limits.body,
            "jsonBody": limits.json_body,
            "uploads": limits.uploads,
            "idleTimeout": limits.idle_timeout_s,
        },
    }


def _fleet(fleet: Fleet) -> dict[str, Any]:
    login = fleet.login
    return {
        "nats": list(fleet.nats),
        "name": fleet.name,
        "prefix": fleet.prefix,
        "address": fleet.address,
        "labels": dict(fleet.labels),
        "secret": [HIDDEN] * len(fleet.secrets) if len(fleet.secrets) > 1 else HIDDEN,
        "user": login.user,
        "password": HIDDEN if login.password else "",
        "credentials": login.credentials,
        "tls": {"ca": login.ca, "cert": login.cert, "key": login.key},
    }


def _fleet_secrets(fleet: Fleet | None) -> tuple[str, ...]:
    return (*fleet.secrets, fleet.login.password) if fleet else ()


def _key(key: ApiKey) -> dict[str, Any]:
    return {"name": key.name, "key": HIDDEN, **rights_of(key)}


def _model(spec: ModelSpec, secrets: Sequence[str], measured: Mapping[Place, Bytes] | None) -> dict[str, Any]:
    return {
        **_recipe(spec.recipe, secrets),
        "aliases": list(spec.aliases),
        "name": spec.title,
        "description": spec.description,
        "unlisted": spec.unlisted,
        "healthCheckTimeout": spec.health_check_timeout_s or 0.0,
        "unloadTimeout": spec.unload_timeout_s,
        "drainTimeout": spec.drain_timeout_s,
        "maxRequestDuration": spec.max_request_s or 0.0,
        "ttl": spec.ttl_s or 0,
        "concurrencyLimit": spec.concurrency_limit or 0,
        "urgency": spec.urgency,
        "pinned": spec.pinned,
        "sleep": _sleep(spec.sleep, secrets) if spec.sleep else None,
        "memory": _memory(spec.footprint(measured)),
        "gpus": written(spec.gpus) if spec.gpus else None,
        "replicas": {"min": spec.replicas.least, "max": spec.replicas.most},
        "hosts": dict(spec.host_labels),
        "useModelName": spec.changes.model_name or "",
        "sendLoadingState": spec.loading_state.value,
        "filters": _filters(spec.changes, spec.changes_by_name),
        "timeouts": _timeouts(spec.timeouts),
        "compat": {"ignoreWebsockets": spec.ignore_websockets},
        "metadata": dict(spec.metadata),
        "capabilities": {
            "in": list(spec.capabilities.takes),
            "out": list(spec.capabilities.gives),
            "tools": spec.capabilities.tools,
            "reranker": spec.capabilities.reranker,
            "context": spec.capabilities.context,
        },
    }


def _sleep(sleep: Sleep, secrets: Sequence[str]) -> dict[str, Any]:
    return {"ttl": sleep.ttl_s or 0, "levels": {level.name: _level(level, secrets) for level in sleep.levels}}


def _level(level: SleepLevel, secrets: Sequence[str]) -> dict[str, Any]:
    return {
        "suspend": [redacted(step.words, secrets) for step in level.suspend],
        "resume": [redacted(step.words, secrets) for step in level.resume],
        "memory": None if level.memory is None else {str(place): size for place, size in level.memory.items()},
        "timeout": level.timeout_s,
    }


def _memory(footprint: Footprint | None) -> dict[str, Any] | None:
    """The memory that a model counts as and the source of the figure; None: unknown, so it takes a whole device."""
    if footprint is None:
        return None
    return {"devices": {str(place): size for place, size in footprint.memory.items()}, "source": footprint.source.value}


def _filters(changes: BodyChanges, by_name: Mapping[str, BodyChanges]) -> dict[str, Any]:
    return {
        "stripParams": list(changes.strip),
        "setParams": dict(changes.set),
        "setParamsByID": {name: dict(each.set) for name, each in by_name.items()},
    }


def _timeouts(timeouts: Timeouts) -> dict[str, float]:
    return {
        "connect": timeouts.connect_s or 0,
        "tlsHandshake": timeouts.tls_handshake_s or 0,
        "keepalive": timeouts.keepalive_s or 0,
        "responseHeader": timeouts.response_header_s or 0,
        "idleConn": timeouts.idle_s or 0,
    }


def _remote(remote: RemoteModel) -> dict[str, Any]:
    return {
        "peer": remote.peer,
        "proxy": str(remote.address),
        "apiKey": HIDDEN if remote.api_key else "",
        "model": remote.changes.model_name,
        "filters": _filters(remote.changes, {}),
        "timeouts": _timeouts(remote.timeouts),
    }


def _selector(selector: Selector) -> dict[str, Any]:
    return {
        "strategy": selector.strategy.value,
        "targets": list(selector.targets),
        "settings": {"spillover": selector.spillover},
        "name": selector.title,
        "description": selector.description,
        "unlisted": selector.unlisted,
        "metadata": dict(selector.metadata),
    }


def _profile(profile: Profile) -> dict[str, Any]:
    return {"description": profile.description, "pins": dict(profile.pins)}


def _recipe(recipe: LaunchRecipe, secrets: Sequence[str]) -> dict[str, Any]:
    return {
        "cmd": redacted(recipe.argv, secrets),
        "cmdStop": redacted(recipe.stop or (), secrets),
        "proxy": recipe.proxy,
        "env": {name: HIDDEN if _is_secret(name, value, secrets) else value for name, value in recipe.env},
        "checkEndpoint": recipe.check_endpoint or "none",
        "port": recipe.preferred_port,
    }


def _is_secret(name: str, value: str, secrets: Sequence[str]) -> bool:
    return is_secret_name(name) or any(secret in value for secret in secrets)


def _group(group: Group) -> dict[str, Any]:
    return {
        "name": group.name,
        "swap": group.swap,
        "exclusive": group.exclusive,
        "persistent": group.persistent,
        "members": list(group.members),
    }


def _matrix(matrix: Matrix | None) -> dict[str, Any] | None:
    if matrix is None:
        return None
    sets = [list(members) for members in matrix.sets]
    return {"sets": sets, "evictCosts": dict(matrix.evict_costs)}


# Sentences about which models run together


def concurrency(catalog: Catalog) -> list[str]:
    exclusive = catalog.groups.exclusive.items()
    shared = [f"Of {listed(names)} one runs at a time, because all use {what}." for what, names in exclusive]
    if catalog.groups.matrix is not None:
        return [*_matrix_sentences(catalog.groups.matrix, catalog), *shared]
    return [*_default_sentence(catalog), *map(_group_sentence, catalog.groups.groups), *shared]


def _matrix_sentences(matrix: Matrix, catalog: Catalog) -> Iterator[str]:
    shown = [" + ".join(members) for members in matrix.sets[:MOST_SETS]]
    more = f", and {len(matrix.sets) - MOST_SETS} more sets" if len(matrix.sets) > MOST_SETS else ""
    yield f"These may run together: {', '.join(shown)}{more}; models outside the cheapest matching set are unloaded."
    if alone := matrix.alone(catalog.models):
        yield f"Models in no set ({listed(alone)}) run alone."


def _default_sentence(catalog: Catalog) -> Iterator[str]:
    rest = [name for name in catalog.models if catalog.groups.of(name) is catalog.groups.default]
    if not rest:
        return
    everybody = len(rest) == len(catalog.models)
    who = "All models" if everybody else f"Models in no group ({listed(rest)})"
    if not catalog.budgets:
        others = "the others" if everybody else "every other model outside a persistent group"
        yield f"{who} run one at a time: loading one stops {others}."
        return
    budgets = ", ".join(f"{place} {size_text(size)}" for place, size in catalog.budgets.items())
    yield f"{who} run together as long as they fit into {budgets}."


def _group_sentence(group: Group) -> str:
    members = listed(group.members) if group.members else "nobody"
    return f'Group "{group.name}" ({members}): ' + "; ".join(_rules(group)) + "."


def _rules(group: Group) -> Iterator[str]:
    yield "one member at a time" if group.swap else "all members may run together"
    if group.exclusive:
        yield "loading a member stops the members of other groups that are not persistent"
    else:
        yield "loading a member stops nothing outside the group"
    if group.persistent:
        yield "no other group stops its members"
    elif not group.exclusive:
        # The rule is one-way, which surprises people: an exclusive group stops also those that are not exclusive.
        yield "an exclusive group loaded later stops them"


def listed(names: Sequence[str]) -> str:
    return ", ".join(names) if len(names) <= 8 else f"{', '.join(names[:8])} and {len(names) - 8} more"
