"""Every key of llama-swap and how hotseat differs: the source of `hotseat check`'s notes and of the how-to page.

A key without a sentence means the same. Keys that have no effect say so where they are declared (`Later`, `Ignored`).
schema.py declares these keys and hotseat's own.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from msgspec import Struct

from hotseat.config.problems import ConfigProblem, Severity, dotted
from hotseat.config.schema import Config

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from hotseat.config.problems import Path, Problems

ANY = "*"
"""Stands for any name."""


def always(value: Any) -> bool:
    return True


def positive(value: Any) -> bool:
    return bool(value)


def below_fifteen(value: Any) -> bool:
    return isinstance(value, int | float) and 0 < value < 15


def says_nothing_of_answers(peer: Any) -> bool:
    timeouts = peer.get("timeouts") if isinstance(peer, dict) else None
    return not isinstance(timeouts, dict) or "responseHeader" not in timeouts


class Row(Struct, frozen=True):
    key: str
    here: str = ""
    """What hotseat does differently, as a sentence without its full stop; empty: nothing."""
    matters: Callable[[Any], bool] | None = None
    """Whether `check` notes the difference for this value; None: only the page lists it."""


TABLE: tuple[Row, ...] = (
    Row("healthCheckTimeout", "Every value is used; llama-swap waits at least 15 s", below_fifteen),
    Row("globalTTL", "Starts at the end of the last request or load, so a new model is not unloaded at once"),
    Row("unloadTimeout", "Also applies when a model is unloaded for another one"),
    Row("logLevel"),
    Row("logTimeFormat"),
    Row("logToStdout", "Can be changed by a reload"),
    Row("logRequests"),
    Row("metricsMaxInMemory"),
    Row("captureBuffer"),
    Row("store.path"),
    Row("ui.activity.session_id"),
    Row("performance.disabled", "Models then count as declared or estimated, if devices are declared"),
    Row("performance.every", "The minimum is 1 s, not 5 s; used only while a model runs and devices are declared"),
    Row("startPort", "A port in use is skipped; without this key the kernel chooses a port instead of 5800", always),
    Row("sendLoadingState", "For every event stream, also as comments; a failed load is an error event", positive),
    Row("includeAliasesInList"),
    Row("macros"),
    Row("apiKeys", "An entry may be a mapping with a role and limits; a string has full access, as in llama-swap"),
    Row("profiles.*.description"),
    Row("profiles.*.pins", "The active profile survives a reload; `hotseat profile NAME` activates one", always),
    Row("selectors.*.strategy", "warm and spillover use the scheduler, which also takes waiting requests into account"),
    Row("selectors.*.targets"),
    Row("selectors.*.settings.spillover"),
    Row("selectors.*.name"),
    Row("selectors.*.description"),
    Row("selectors.*.unlisted"),
    Row("selectors.*.metadata"),
    Row("hooks.on_startup.preload", "A model counts as loaded when it is ready; no request is sent to it"),
    Row("upstream.ignorePaths", "Patterns use Python's syntax"),
    Row("models.*.cmd", "Words that only a shell understands are reported"),
    Row("models.*.cmdStop", "Limited to `unloadTimeout`, then the processes are killed", positive),
    Row("models.*.proxy",
        "May be unix:/path; localhost is tried as 127.0.0.1 and ::1; proxy environment variables are ignored"),
    Row("models.*.checkEndpoint", "Polled every 5 to 250 ms, not once a second; none waits for an open port"),
    Row("models.*.healthCheckTimeout", "Takes effect; llama-swap overwrites it with the global value", positive),
    Row("models.*.ttl", "Same as globalTTL; cannot race with a request"),
    Row("models.*.unloadTimeout", "Also applies when the model is unloaded for another one"),
    Row("models.*.aliases"),
    Row("models.*.name"),
    Row("models.*.description"),
    Row("models.*.unlisted"),
    Row("models.*.metadata", "Also under `meta.hotseat`"),
    Row("models.*.capabilities.in"),
    Row("models.*.capabilities.out"),
    Row("models.*.capabilities.tools"),
    Row("models.*.capabilities.reranker"),
    Row("models.*.capabilities.context"),
    Row("models.*.env", "May be a mapping; variables that contain hotseat's keys are not passed on"),
    Row("models.*.useModelName"),
    Row("models.*.filters.stripParams", "May be a list"),
    Row("models.*.filters.strip_params"),
    Row("models.*.filters.setParams"),
    Row("models.*.filters.setParamsByID"),
    Row("models.*.concurrencyLimit",
        "Further requests wait in the queue instead of getting 429; 0 is no limit, not 10", positive),
    Row("models.*.sendLoadingState", "Same as the global key", positive),
    Row("models.*.timeouts.connect"),
    Row("models.*.timeouts.keepalive", "0 turns it off"),
    Row("models.*.timeouts.responseHeader"),
    Row("models.*.timeouts.tlsHandshake", "Combined with connect into one limit"),
    Row("models.*.timeouts.expectContinue"),
    Row("models.*.timeouts.idleConn", "At most 4 s: llama-server closes connections after 5 s"),
    Row("models.*.compat.ignoreWebsockets"),
    Row("models.*.macros"),
    Row("groups.*.swap"),
    Row("groups.*.exclusive"),
    Row("groups.*.persistent"),
    Row("groups.*.members"),
    Row("matrix.vars"),
    Row("matrix.evict_costs"),
    Row("matrix.sets", "Memory is also taken into account, if devices are declared"),
    Row("routing.router.use", "memory is a third value: models run together as long as they fit into the devices"),
    Row("routing.router.settings.groups"),
    Row("routing.router.settings.matrix"),
    Row("routing.scheduler.use", "fifo means hotseat's own scheduler: turns and a bounded wait for all", always),
    Row("routing.scheduler.settings.fifo.priority",
        "Each step up doubles a model's urgency, and no priority can starve another; aliases are accepted", positive),
    Row("peers.*.proxy", "Certificates are verified; redirects are passed to the client"),
    Row("peers.*", "A response may take 600 s to begin, not 60 s: the peer may be loading", says_nothing_of_answers),
    Row("peers.*.apiKey", "Sent to this peer only"),
    Row("peers.*.models"),
    Row("peers.*.filters"),
    Row("peers.*.timeouts"),
)  # fmt: skip


OWN_KEYS = frozenset(Config.known_keys()) - {row.key.partition(".")[0] for row in TABLE}
"""Keys at the top of a file that llama-swap does not have."""


def differences(value: dict[str, Any], problems: Problems) -> Iterator[ConfigProblem]:
    """A note for each key whose effect differs from llama-swap; none if the file was written for hotseat."""
    for row in TABLE if OWN_KEYS.isdisjoint(value) else ():
        for path, found in _written(value, tuple(row.key.split(".")), ()) if row.matters else ():
            if row.matters and row.matters(found):
                spot = problems.spot(path)
                yield ConfigProblem(Severity.NOTE, spot.file, spot.line, spot.column, dotted(path), row.here)


def _written(value: Any, steps: tuple[str, ...], path: Path) -> Iterator[tuple[Path, Any]]:
    if not steps:
        if value is not None:
            yield path, value
        return
    if isinstance(value, dict):
        for key in value if steps[0] == ANY else steps[:1] if steps[0] in value else ():
            yield from _written(value[key], steps[1:], (*path, key))
