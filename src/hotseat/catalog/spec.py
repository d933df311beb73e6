"""PURE: what is configured for a model, and what operators have set for it. Frozen and valid; created by config/."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from enum import Enum
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from msgspec import Struct

from hotseat.catalog.template import GPUS, PID, PORT, address_of, fill_hole, holes
from hotseat.identifiers import ANY_GPU, LOCAL_HOST, RAM, DeviceName, Place

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from hotseat.catalog.sleeping import Sleep
    from hotseat.identifiers import Address, Bytes, ModelName, Seconds

NOTHING: Mapping[Any, Any] = MappingProxyType({})
MOST_TTL_S: Seconds = 1e9


@dataclass(frozen=True, slots=True)
class LaunchRecipe:
    """How a model server is started and reached. May contain ${PORT} and, in `stop`, ${PID}."""

    argv: tuple[str, ...]
    proxy: str
    stop: tuple[str, ...] | None = None
    env: tuple[tuple[str, str], ...] = ()
    check_endpoint: str | None = "/health"
    """Polled until it answers 200; None: an open port is enough."""
    preferred_port: int | None = field(default=None, compare=False)
    """With `startPort`: the port that llama-swap would assign. None: the kernel chooses. It depends on the number of
    models before this one, so a server with another one is not out of date."""
    secrets: tuple[str, ...] = field(default=(), repr=False, compare=False)
    """Values that the configuration took from the environment, which the server inherits: never shown."""

    @property
    def wants_port(self) -> bool:
        return any("${PORT}" in text for text in (*self.argv, self.proxy))

    @property
    def fixed_address(self) -> Address | None:
        """Where its server listens at every start; None: nobody knows before."""
        if holes(self.proxy):
            return None
        try:
            return address_of(self.proxy)
        except ValueError:  # the configuration reports it where it stands
            return None


class FilledRecipe(Struct, frozen=True):
    """A launch recipe for one process: only `${PID}` in `stop` is left open."""

    argv: tuple[str, ...]
    address: Address
    env: tuple[tuple[str, str], ...]
    check_endpoint: str | None
    stop: tuple[str, ...] | None

    def stop_argv(self, pid: int) -> tuple[str, ...] | None:
        """The command that stops process `pid`; None: a signal does."""
        return None if self.stop is None else tuple(fill_hole(text, PID, pid) for text in self.stop)


def with_gpus(recipe: LaunchRecipe, names: str) -> LaunchRecipe:
    """A copy with `names` instead of `${GPUS}`."""
    return replace(
        recipe,
        argv=tuple(fill_hole(text, GPUS, names) for text in recipe.argv),
        env=tuple((name, fill_hole(value, GPUS, names)) for name, value in recipe.env),
        stop=recipe.stop and tuple(fill_hole(text, GPUS, names) for text in recipe.stop),
    )


def fill(recipe: LaunchRecipe, port: int) -> FilledRecipe:
    return FilledRecipe(
        argv=tuple(fill_hole(text, PORT, port) for text in recipe.argv),
        address=address_of(fill_hole(recipe.proxy, PORT, port)),
        env=tuple((name, fill_hole(value, PORT, port)) for name, value in recipe.env),
        check_endpoint=recipe.check_endpoint and fill_hole(recipe.check_endpoint, PORT, port),
        stop=recipe.stop and tuple(fill_hole(text, PORT, port) for text in recipe.stop),
    )


class Overrides(Struct, frozen=True):
    """What an operator has set for a model while hotseat runs: it takes precedence. None: as configured."""

    pinned: bool | None = None
    ttl_s: Seconds | None = None
    """0: it is never unloaded for being idle."""

    def __bool__(self) -> bool:
        return self != NO_OVERRIDES


NO_OVERRIDES = Overrides()


class Configured(Struct, frozen=True):
    """What the configuration says about that which can be overridden."""

    pinned: bool
    ttl_s: Seconds | None
    """None: never."""


@dataclass(frozen=True, slots=True)
class BodyChanges:
    """Changes to a JSON body before it is sent to the upstream, in this order."""

    model_name: str | None = None
    strip: tuple[str, ...] = ()
    set: Mapping[str, Any] = field(default_factory=lambda: NOTHING)

    def __bool__(self) -> bool:
        return bool(self.model_name or self.strip or self.set)

    def adding(self, members: Mapping[str, Any]) -> BodyChanges:
        """A copy that also sets these members, except `model`, which filters may not change."""
        more = {name: value for name, value in members.items() if name != "model"}
        return replace(self, set=MappingProxyType({**self.set, **more})) if more else self


UNCHANGED = BodyChanges()


class LoadingState(Enum):
    """What a streaming client is sent while it waits for its model."""

    OFF = "off"
    """Nothing, so that a failed load is still a 503."""
    REASONING = "reasoning"
    """Reasoning chunks, which chat clients show."""
    COMMENTS = "comments"
    """Comment lines, which event stream readers skip but which keep their timeouts from firing."""


class Timeouts(Struct, frozen=True):
    """Timeouts towards a server. None: no limit."""

    connect_s: Seconds | None = 30.0
    """To connect."""
    tls_handshake_s: Seconds | None = 10.0
    """Added to `connect_s` if the connection is encrypted."""
    keepalive_s: Seconds | None = 30.0
    """Idle time before the kernel sends keepalive probes; None: no probes."""
    response_header_s: Seconds | None = None
    """From the request to the response head."""
    idle_s: Seconds | None = 90.0
    """For idle connections; the relay's own limit is shorter."""
    lost_s: Seconds | None = None
    """Time without acknowledgement before the connection counts as lost; None: the kernel's default."""


DEFAULT_TIMEOUTS = Timeouts()
HOST_TIMEOUTS = Timeouts(connect_s=3.0, keepalive_s=5.0, lost_s=20.0)
"""Towards other hosts of a fleet: a host without power does not answer, and no request should wait for it."""


class Capabilities(Struct, frozen=True):
    """What a model declares in the model list; only passed on."""

    takes: tuple[str, ...] = ()
    gives: tuple[str, ...] = ()
    tools: bool = False
    reranker: bool = False
    context: int = 0
    """Tokens; 0: not declared."""

    def __bool__(self) -> bool:
        return self != Capabilities()


class Source(Enum):
    """Where a memory figure comes from."""

    DECLARED = "declared"
    MEASURED = "measured"
    ESTIMATED = "estimated"


class Footprint(Struct, frozen=True):
    """Memory of a model by place, and where the figure comes from."""

    memory: Mapping[Place, Bytes]
    source: Source


class GpuChoice(Struct, frozen=True):
    """Which cards a model may get; they are chosen when it starts, and its server sees no others."""

    count: int | None
    """How many; None: as few as it fits on."""
    among: tuple[Place, ...]
    """In the order of the devices."""

    @property
    def is_list(self) -> bool:
        """Whether it leaves no choice: a list, or as many cards as there are."""
        return self.count == len(self.among)


class Replicas(Struct, frozen=True):
    """How many hosts of a fleet must have the model, and how many may at a time."""

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
    """Limit until its server is ready; None: from the size of its files, at least two minutes."""
    unload_timeout_s: Seconds = 10.0
    drain_timeout_s: Seconds = 10.0
    max_request_s: Seconds | None = None
    """Time limit of one request; None: no limit."""
    ttl_s: Seconds | None = None
    """Idle time until the model is unloaded; None: never."""
    concurrency_limit: int | None = None
    """Concurrent requests; None: unknown."""
    urgency: float = 1.0
    pinned: bool = False
    overrides: Overrides = NO_OVERRIDES
    """What an operator has set; `ttl_s` and `pinned` include it."""
    configured: Configured | None = None
    """What the configuration says about these two, if an operator has set one of them."""
    sleep: Sleep | None = None
    """How it sleeps instead of stopping when memory is needed; None: it cannot."""
    keeps_conversations: bool = False
    """Save what its server has computed of each conversation before it is stopped, and restore it at the next start."""
    gpus: GpuChoice | None = None
    """None: its server decides which cards it uses."""
    per_gpu: Bytes = 0
    """What it needs on each card after the first, beyond `footprint`; 0: unknown."""
    memory: Mapping[Place, Bytes] | None = None
    """Declared memory."""
    estimated: Mapping[Place, Bytes] | None = None
    """Estimate from its files and command line: counts if none is declared, where none was measured."""
    changes: BodyChanges = UNCHANGED
    loading_state: LoadingState = LoadingState.OFF
    changes_by_name: Mapping[str, BodyChanges] = field(default_factory=lambda: NOTHING)
    """Other changes for requests that use one of these names."""
    timeouts: Timeouts = DEFAULT_TIMEOUTS
    ignore_websockets: bool = False
    """Websockets reach it while it runs, but neither start it nor keep it loaded."""
    metadata: Mapping[str, Any] = field(default_factory=lambda: NOTHING)
    capabilities: Capabilities = field(default_factory=Capabilities)
    replicas: Replicas = field(default_factory=Replicas)
    host_labels: Mapping[str, str] = field(default_factory=lambda: NOTHING)
    """Labels that a host of a fleet must have to run it."""

    def with_overrides(self, overrides: Overrides) -> ModelSpec:
        """A copy with these overrides instead of any earlier ones."""
        said = self.configured or Configured(self.pinned, self.ttl_s)
        return replace(
            self,
            overrides=overrides,
            configured=said if overrides else None,
            pinned=said.pinned if overrides.pinned is None else overrides.pinned,
            ttl_s=said.ttl_s if overrides.ttl_s is None else overrides.ttl_s or None,
        )

    @property
    def is_placed_at_start(self) -> bool:
        """Whether its memory on cards is counted as ANY_GPU until it starts: not if the cards are declared."""
        return self.gpus is not None and (self.memory is None or ANY_GPU in self.memory)

    def footprint(self, measured: Mapping[Place, Bytes] | None) -> Footprint | None:
        """What it counts as if this much was measured; None: unknown, so it takes a whole device."""
        if self.memory is not None:
            return Footprint(self.memory, Source.DECLARED)
        if measured:
            return Footprint({**(self.estimated or NOTHING), **measured}, Source.MEASURED)
        return Footprint(self.estimated, Source.ESTIMATED) if self.estimated else None


def gpus_in(places: Iterable[Place]) -> tuple[Place, ...]:
    return tuple(place for place in places if place.device != RAM)


def written(choice: GpuChoice) -> str | int | list[str]:
    """`auto`, a number, or a list of devices."""
    if choice.count is None:
        return "auto"
    return [place.device for place in choice.among] if choice.is_list else choice.count


def choice_of(said: str | int | Sequence[str], cards: tuple[Place, ...]) -> GpuChoice:
    """What such a text means on a machine with these cards."""
    if isinstance(said, str):
        return GpuChoice(None, cards)
    if isinstance(said, int):
        return GpuChoice(said, cards)
    return GpuChoice(len(said), tuple(Place(LOCAL_HOST, DeviceName(device)) for device in said))


def on_cards(memory: Mapping[Place, Bytes], cards: Sequence[Place], sizes: Mapping[Place, Bytes]) -> dict[Place, Bytes]:
    """`memory` with its part of ANY_GPU on these cards, in proportion to their sizes, as llama-server splits a model.

    Without cards, that part is left out: nobody knows where it will be.
    """
    kept = {place: bytes_ for place, bytes_ in memory.items() if place != ANY_GPU}
    together, all_cards = memory.get(ANY_GPU, 0), sum(sizes.get(card, 0) for card in cards)
    shares = {card: -(-together * sizes.get(card, 0) // all_cards) for card in cards} if all_cards else {}
    if cards and not all_cards:
        shares = {cards[0]: together}
    return {**shares, **kept}
