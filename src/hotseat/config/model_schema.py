"""The keys of one model."""

from __future__ import annotations

from typing import Annotated, Any, Literal, TypeAlias

from pydantic import AfterValidator, BeforeValidator, Field, WithJsonSchema

from hotseat.config.fleet_schema import ReplicasForm
from hotseat.config.schema_base import AsList, AsMapping, Form, Ignored, ListOrMapping, Words
from hotseat.config.sleep_schema import Memory, SleepOrServer
from hotseat.config.units import Duration, KeepAlive, Switch, Ttl

Modality: TypeAlias = Literal["text", "audio", "image"]


def _loading_state(value: Any) -> Any:
    """llama-swap's true means reasoning text; its false means off."""
    if value in (True, "true"):
        return "reasoning"
    return "off" if value in (False, "false") else value


LoadingStateName: TypeAlias = Annotated[
    Literal["off", "reasoning", "comments"],
    BeforeValidator(_loading_state),
    WithJsonSchema({"enum": [True, False, "off", "reasoning", "comments"]}),
]


def _assignment(entry: str) -> str:
    name, equals, _ = entry.partition("=")
    if not name or not equals:
        raise ValueError("must be NAME=value")  # the entry itself may be a secret
    return entry


def _variables(variables: dict[str, str]) -> dict[str, str]:
    for name in variables:
        if not name or "=" in name:
            raise ValueError(f'"{name}" cannot be the name of a variable')
    return variables


Assignment: TypeAlias = Annotated[str, AfterValidator(_assignment)]
Environment: TypeAlias = Annotated[
    Annotated[tuple[Assignment, ...], AsList] | Annotated[dict[str, str], AfterValidator(_variables), AsMapping],
    ListOrMapping,
]


class Filters(Form):
    strip_params: Words = ""
    """Members removed from JSON bodies, comma-separated or as a list; dots address nested members."""
    old_strip_params: Annotated[Words, Field(alias="strip_params")] = ""
    """Old spelling of stripParams, used when that is empty."""
    set_params: dict[str, Any] = Field(default_factory=dict)
    """Members set in JSON bodies; dots address nested members."""
    set_params_by_id: dict[str, dict[str, Any]] = Field(default_factory=dict, alias="setParamsByID")
    """Members to set by the name that was asked for; each key becomes a name of the model."""


class TimeoutsForm(Form):
    connect: Duration = 30.0
    """Time to connect to the server; 0 is none."""
    keepalive: KeepAlive = 30.0
    """TCP keep-alive period, 32767 s at most; 0 is off."""
    response_header: Duration = 0.0
    """Time to wait for the head of the answer; 0 is none."""
    tls_handshake: Duration = 10.0
    """Time added to connect for the TLS handshake with an https server; 0 is none."""
    expect_continue: Annotated[Duration, Ignored("The body is sent at once")] = 1.0
    """Time to wait for a server's word before the body is sent."""
    idle_conn: Duration = 90.0
    """How long an unused connection is kept, 4 s at most: llama-server closes them after 5."""


class CapabilitiesForm(Form):
    in_: Annotated[tuple[Modality, ...], Field(alias="in")] = ()
    """What the model takes: text, audio, image."""
    out: tuple[Modality, ...] = ()
    """What the model gives: text, audio, image."""
    tools: Switch = False
    """Whether the model calls tools."""
    reranker: Switch = False
    """Whether the model ranks documents."""
    context: Annotated[int, Field(ge=0)] = 0
    """Context length in tokens."""


class Compat(Form):
    ignore_websockets: Switch = False
    """WebSockets neither start the model nor keep it."""


class ModelForm(Form):
    """A model and how its server is started."""

    cmd: Annotated[str, Field(min_length=1)]
    """Command line of the server, split like a shell would but run without one. May use ${PORT} and macros."""
    cmd_stop: str = ""
    """Command that stops the server instead of SIGTERM. May use ${PID}."""
    proxy: str = "http://localhost:${PORT}"
    """Base URL of the server: http, https or unix:/path."""
    check_endpoint: str = "/health"
    """Path that answers 200 once the server is ready; `none` waits for an open port."""
    health_check_timeout: Duration = 0.0
    """Time until the server must be ready; 0 is the global value."""
    ttl: Ttl = -1.0
    """Idle time after which the model is unloaded; -1 is globalTTL, 0 is never."""
    unload_timeout: Duration = 0.0
    """Time a stopping server has before it is killed; 0 is the global value."""
    drain_timeout: Duration = 10.0
    """Time requests in flight have to finish when the model is unloaded by hand."""
    max_request_duration: Duration = 0.0
    """Time one request may use the model before it is cut visibly; 0 is no limit."""
    aliases: tuple[str, ...] = ()
    """Other names of the model."""
    name: str = ""
    """Title shown in the model list."""
    description: str = ""
    """Text shown in the model list."""
    unlisted: Switch = False
    """Not in the model list, still usable."""
    env: Environment = ()
    """Environment of the server: NAME=value entries or a mapping."""
    use_model_name: str = ""
    """Name sent to the server as `model`."""
    filters: Filters = Filters()
    """Changes to JSON bodies on their way to the server."""
    concurrency_limit: Annotated[int, Field(ge=0)] = 0
    """Requests sent to the server at a time; the rest wait. 0: as many as come."""
    max_queue: Annotated[int, Field(ge=0)] = 0
    """How many requests may wait for this model before new ones get 429; 0: as many as scheduler.maxQueue allows."""
    send_loading_state: LoadingStateName | None = None
    """What a client that asked for a stream is sent while it waits for the model; without it, the global value."""
    macros: dict[str, Any] = Field(default_factory=dict)
    """Texts for ${name} in this model; they win over global ones."""
    metadata: dict[str, Any] = Field(default_factory=dict)
    """Free values, shown under `meta` in the model list."""
    capabilities: CapabilitiesForm = CapabilitiesForm()
    """What the model can do, for the model list."""
    timeouts: TimeoutsForm = TimeoutsForm()
    """Time limits towards the server."""
    compat: Compat = Compat()
    """Ways of other programs."""
    memory: Memory | None = None
    """Memory it takes: a size on the first device, or a mapping of sizes per device."""
    urgency: Annotated[float, Field(gt=0)] = 1.0
    """How much waiting for this model weighs."""
    pinned: Switch = False
    """Never unloaded to make room."""
    sleep: SleepOrServer | None = None
    """How its server sleeps instead of being stopped when others need its room: `vllm`, `llama-server` or a mapping."""
    replicas: ReplicasForm = ReplicasForm()
    """On how many hosts of a fleet it runs."""
    hosts: dict[str, str] = Field(default_factory=dict)
    """Labels that a host of a fleet must have to run it."""
    read_ahead: Switch | None = None
    """Bring its files into the page cache while others make room for it; without it, the global value."""
