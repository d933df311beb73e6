"""Every key of llama-swap has the effect that the table of differences describes."""

from __future__ import annotations

from copy import deepcopy
from typing import TYPE_CHECKING, Any

import pytest
import yaml
from scripts.make_docs import field_at, keys_of, support

from hotseat.config.crosscheck import unused
from hotseat.config.llamaswap import TABLE, Row
from hotseat.config.schema import Config

if TYPE_CHECKING:
    from tests.support.config_files import ConfigFiles

    from hotseat.config.load import Loaded

CMD = "server --port ${PORT} ${word}"
MODELS = {"m": {"cmd": CMD}, "n": {"cmd": CMD}}
GROUND: dict[str, dict[str, Any]] = {
    "": {"models": MODELS, "macros": {"word": 1}},
    "profiles": {"profiles": {"x": {"pins": {"a": "m"}}}},
    "selectors": {"selectors": {"x": {"strategy": "pin", "targets": ["m"]}}},
    "groups": {"groups": {"x": {"members": ["m"]}}},
    "matrix": {"matrix": {"sets": {"s": "m"}}},
    "peers": {"peers": {"x": {"proxy": "http://h", "models": ["far"]}}},
    "models.*.cmdStop": {"startPort": 6000},
}
"""The text that a key needs around it, by the key's prefix."""

GROUPS = {"g": {"swap": False, "members": ["m", "n"]}}
SAID: dict[str, Any] = {
    "healthCheckTimeout": 3,
    "globalTTL": 60,
    "unloadTimeout": 5,
    "logLevel": "debug",
    "logTimeFormat": "kitchen",
    "logToStdout": "both",
    "logRequests": True,
    "metricsMaxInMemory": 5,
    "captureBuffer": 5,
    "store.path": "/tmp/x.db",
    "ui.activity.session_id": [],
    "performance.disabled": True,
    "performance.every": "1h30m",
    "startPort": 6000,
    "sendLoadingState": True,
    "includeAliasesInList": True,
    "macros": {"word": 2},
    "apiKeys": ["open-sesame-please"],
    "profiles.*.description": "D",
    "profiles.*.pins": {"a": None},
    "selectors.*.strategy": "warm",
    "selectors.*.targets": ["n"],
    "selectors.*.settings.spillover": 2,
    "selectors.*.name": "N",
    "selectors.*.description": "D",
    "selectors.*.unlisted": True,
    "selectors.*.metadata": {"k": 1},
    "hooks.on_startup.preload": ["m"],
    "upstream.ignorePaths": ["a$"],
    "models.*.cmd": "other --port ${PORT}",
    "models.*.cmdStop": "stop ${PID}",
    "models.*.proxy": "http://127.0.0.1:${PORT}/x",
    "models.*.checkEndpoint": "none",
    "models.*.healthCheckTimeout": 3,
    "models.*.ttl": 60,
    "models.*.unloadTimeout": 5,
    "models.*.aliases": ["other"],
    "models.*.name": "N",
    "models.*.description": "D",
    "models.*.unlisted": True,
    "models.*.metadata": {"k": 1},
    "models.*.capabilities.in": ["audio"],
    "models.*.capabilities.out": ["image"],
    "models.*.capabilities.tools": True,
    "models.*.capabilities.reranker": True,
    "models.*.capabilities.context": 4096,
    "models.*.env": ["A=1"],
    "models.*.useModelName": "other",
    "models.*.filters.stripParams": "seed",
    "models.*.filters.strip_params": "seed",
    "models.*.filters.setParams": {"k": 1},
    "models.*.filters.setParamsByID": {"m:high": {"k": 1}},
    "models.*.concurrencyLimit": 2,
    "models.*.sendLoadingState": True,
    "models.*.timeouts.connect": 1,
    "models.*.timeouts.keepalive": 1,
    "models.*.timeouts.responseHeader": 1,
    "models.*.timeouts.tlsHandshake": 1,
    "models.*.timeouts.expectContinue": 2,
    "models.*.timeouts.idleConn": 1,
    "models.*.compat.ignoreWebsockets": True,
    "models.*.macros": {"word": 2},
    "groups.*.swap": False,
    "groups.*.exclusive": False,
    "groups.*.persistent": True,
    "groups.*.members": ["m", "n"],
    "matrix.vars": {"m": "n"},
    "matrix.evict_costs": {"m": 5},
    "matrix.sets": {"s": "m & n"},
    "routing.router.use": "matrix",
    "routing.router.settings.groups": GROUPS,
    "routing.router.settings.matrix": {"sets": {"s": "m & n"}},
    "routing.scheduler.use": "fifo",
    "routing.scheduler.settings.fifo.priority": {"m": 1},
    "peers.*": {"proxy": "http://other", "models": ["far"]},
    "peers.*.proxy": "https://other",
    "peers.*.apiKey": "sesame",
    "peers.*.models": ["near"],
    "peers.*.filters": {"stripParams": "seed"},
    "peers.*.timeouts": {"connect": 1},
}
"""For each key a value that is not its default."""

MEANS_WHAT_IS_SO = {"routing.scheduler.use"}
"""Keys with only one valid value."""


def file_for(key: str, *, saying: bool) -> str:
    """A file in which the key has an effect, with or without the key."""
    ground: dict[str, Any] = {}
    for beginning, part in GROUND.items():
        if key.startswith(beginning):
            ground |= deepcopy(part)
    if key.startswith("routing.router"):
        ground["routing"] = {"router": {"settings": {"matrix": {"sets": {"s": "m"}}}}}
        ground["routing"]["router"]["use"] = "matrix" if key.endswith("matrix") else "group"
    if saying:
        put(ground, ["x" if step == "*" and "models" not in key[:6] else step for step in key.split(".")], SAID[key])
    return yaml.safe_dump(ground, sort_keys=False)


def put(holder: dict[str, Any], steps: list[str], value: Any) -> None:
    *way, last = ["m" if step == "*" else step for step in steps]
    for step in way:
        holder = holder.setdefault(step, {})
    holder[last] = value


def test_the_table_speaks_of_keys_that_exist() -> None:
    """Each key of the table is valid and is tested below."""
    assert [row.key for row in TABLE if field_at(row.key) is None] == []
    assert {row.key for row in TABLE} == SAID.keys()


def test_a_key_that_has_no_effect_is_one_of_llama_swaps() -> None:
    """All of hotseat's own keys have an effect; llama-swap's that do not are in the table."""
    known = tuple(row.key for row in TABLE)
    without_effect = [key for key, field, _ in keys_of(Config, "", set()) if unused(field)]

    assert without_effect
    assert [key for key in without_effect if not key.startswith(known)] == []


def effect(loaded: Loaded) -> object:
    """Equal recipes may prefer different ports."""
    ports = [spec.recipe.preferred_port for spec in loaded.catalog.models.values()]
    return loaded.catalog, loaded.settings, ports


@pytest.mark.parametrize("row", TABLE, ids=lambda row: row.key)
def test_each_key_has_an_effect_or_says_why_not(files: ConfigFiles, row: Row) -> None:
    """A key with an effect changes the result; one without gives a warning at its position."""
    without, with_key = files.load(file_for(row.key, saying=False)), files.load(file_for(row.key, saying=True))
    changes = effect(with_key) != effect(without)
    warned = [problem.message for problem in with_key.problems if problem not in without.problems]

    match support(row)[0]:
        case "not yet":
            assert (changes, warned) == (False, ["not used yet"])
        case "ignored":
            assert (changes, warned) == (False, ["ignored"])
        case _:
            assert changes or row.key in MEANS_WHAT_IS_SO
            assert not {"not used yet", "ignored"} & set(warned)


@pytest.mark.parametrize("row", [row for row in TABLE if row.matters], ids=lambda row: row.key)
def test_a_difference_that_matters_is_reported_where_it_is_written(files: ConfigFiles, row: Row) -> None:
    """`check` prints a line for it, with file, line, column and the reason."""
    text = file_for(row.key, saying=True)
    differences = [each for each in files.load(text).differences if each.message == row.here]

    assert len(differences) == 1
    assert differences[0].line > 1 or text.startswith(row.key)
    assert row.here in str(differences[0])


def test_an_ordinary_file_gets_no_notes(files: ConfigFiles) -> None:
    """A file without differences gives no notes."""
    assert files.load("models: {m: {cmd: 's ${PORT}', ttl: 60}}\nhealthCheckTimeout: 60\n").differences == ()


@pytest.mark.parametrize(("more", "notes"), [("", 1), ("x-mine: {}\n", 1), ("devices: {gpu0: {memory: 24GiB}}\n", 0)])
def test_a_file_written_for_hotseat_is_not_compared(files: ConfigFiles, more: str, notes: int) -> None:
    """Whoever uses a section that llama-swap does not have knows which program reads the file."""
    loaded = files.load(more + "models: {m: {cmd: 's ${PORT}', concurrencyLimit: 1}}\n")

    assert len(loaded.differences) == notes
