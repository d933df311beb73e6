"""What is known of a model before it runs. Frozen and already validated: config/ makes these, everybody reads them."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from enum import Enum
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Mapping

    from hotseat.catalog.sleeping import Sleep
    from hotseat.identifiers import Bytes, ModelName, Place, Seconds

NOTHING: Mapping[Any, Any] = MappingProxyType({})


@dataclass(frozen=True, slots=True)
class LaunchRecipe:
    """How a model's server is started and found. Texts may still hold ${PORT} and, in `stop`, ${PID}."""

    argv: tuple[str, ...]
    proxy: str
    stop: tuple[str, ...] | None = None
    env: tuple[tuple[str, str], ...] = ()
    check_endpoint: str | None = "/health"
    """Asked until it answers 200; None: an open port is enough."""
    preferred_port: int | None = None
    """With `startPort`: the number llama-swap would have given this model. None: the kernel chooses."""
    secrets: tuple[str, ...] = field(default=(), repr=False, compare=False)
    """Values that the configuration took out of the environment, which the server inherits: nobody is shown them."""

    @property
    def wants_port(self) -> bool:
        return any("${PORT}" in text for text in (*self.argv, self.proxy))


@dataclass(frozen=True, slots=True)
class BodyChanges:
    """What is changed in a JSON body on its way to the upstream, in this order."""

    model_name: str | None = None
    strip: tuple[str, ...] = ()
    set: Mapping[str, Any] = field(default_factory=lambda: NOTHING)

    def __bool__(self) -> bool:
        return bool(self.model_name or self.strip or self.set)

    def adding(self, members: Mapping[str, Any]) -> BodyChanges:
        """The same, and then these members set as well; `model` is not for filters to change."""
        more = {name: value for name, value in members.items() if name != "model"}
        return replace(self, set=MappingProxyType({**self.set, **more}))


UNCHANGED = BodyChanges()


class LoadingState(Enum):
    """What a client that asked for a stream is sent while it waits for its model."""

    OFF = "off"
    """Nothing, so that a failed load is still a 503."""
    REASONING = "reasoning"
    """Pieces of reasoning, which chats show."""
    COMMENTS = "comments"
    """Lines that every reader of event streams skips, but that tell its clock that somebody is there."""


@dataclass(frozen=True, slots=True)
class Timeouts:
    """How long a server may take, towards which we are the client. None: as long as it likes."""

    connect_s: Seconds | None = 30.0
    """Until there is a connection."""
    tls_handshake_s: Seconds | None = 10.0
    """Added to that where the connection is encrypted."""
    keepalive_s: Seconds | None = 30.0
    """Silence after which the kernel asks whether the other side is still there; None: it never asks."""
    response_header_s: Seconds | None = None
    """From the request to the head of the answer."""
    idle_s: Seconds | None = 90.0
    """How long a connection may rest; the relay's own limit is shorter."""
    lost_s: Seconds | None = None
    """How long what was sent may go unacknowledged before the other side counts as lost; None: as the kernel likes."""


DEFAULT_TIMEOUTS = Timeouts()
FELLOW_TIMEOUTS = Timeouts(connect_s=3.0, keepalive_s=5.0, lost_s=20.0)
"""Towards other hosts of a fleet: one whose power failed says nothing, and nobody should wait for it."""


@dataclass(frozen=True, slots=True)
class Capabilities:
    """What a model says of itself in the model list. We only pass it on."""

    takes: tuple[str, ...] = ()
    gives: tuple[str, ...] = ()
    tools: bool = False
    reranker: bool = False
    context: int = 0
    """Tokens; 0: it does not say."""

    def __bool__(self) -> bool:
        return self != Capabilities()


class Source(Enum):
    """Who says how much memory a model takes."""

    DECLARED = "declared"
    MEASURED = "measured"
    ESTIMATED = "estimated"


@dataclass(frozen=True, slots=True)
class Footprint:
    """How much memory a model takes of each device, and who says so."""

    memory: Mapping[Place, Bytes]
    source: Source


@dataclass(frozen=True, slots=True)
class Replicas:
    """How many hosts of a fleet may have a model at a time, and how many shall."""

    least: int = 0
    most: int = 1


@dataclass(frozen=True, slots=True)
class ModelSpec:
    name: ModelName
    recipe: LaunchRecipe
    aliases: tuple[str, ...] = ()
    title: str = ""
    description: str = ""
    unlisted: bool = False
    health_check_timeout_s: Seconds | None = None
    """Until its server must be ready; None: by the size of its files, never less than two minutes."""
    unload_timeout_s: Seconds = 10.0
    drain_timeout_s: Seconds = 10.0
    max_request_s: Seconds | None = None
    """How long one request may use the model; None: as long as it takes."""
    ttl_s: Seconds | None = None
    """Idle time after which the model is unloaded; None: never."""
    concurrency_limit: int | None = None
    """Requests forwarded at a time; None: unknown."""
    max_queue: int | None = None
    """Requests that may wait for it; None: as many as may wait at all."""
    urgency: float = 1.0
    pinned: bool = False
    sleep: Sleep | None = None
    """How it sleeps instead of being stopped when others need its room; None: it cannot."""
    reads_ahead: bool = True
    """Its files are brought into the page cache while others make room for it."""
    memory: Mapping[Place, Bytes] | None = None
    """What the configuration says it takes."""
    estimated: Mapping[Place, Bytes] | None = None
    """What its files and its command line let expect, for people to compare."""
    learned: Footprint | None = None
    """What it was measured or estimated to take: counts where the configuration says nothing."""
    changes: BodyChanges = UNCHANGED
    loading_state: LoadingState = LoadingState.OFF
    changes_by_name: Mapping[str, BodyChanges] = field(default_factory=lambda: NOTHING)
    """Other changes, for those who call it by one of these names."""
    timeouts: Timeouts = DEFAULT_TIMEOUTS
    ignore_websockets: bool = False
    """Websockets reach it while it runs, but neither start it nor keep it."""
    metadata: Mapping[str, Any] = field(default_factory=lambda: NOTHING)
    capabilities: Capabilities = Capabilities()
    replicas: Replicas = Replicas()
    host_labels: Mapping[str, str] = field(default_factory=lambda: NOTHING)
    """What a host of a fleet must be labelled with to run it."""

    @property
    def footprint(self) -> Footprint | None:
        """What it counts as; None: unknown, so it takes a whole device."""
        return self.learned if self.memory is None else Footprint(self.memory, Source.DECLARED)
