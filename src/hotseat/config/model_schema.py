"""The keys of models and peers, and of what chooses among them: groups, the matrix, selectors and profiles."""

from typing import Annotated, Any, Literal, TypeAlias

from pydantic import AfterValidator, BeforeValidator, Field, WithJsonSchema

from hotseat.config.fleet_schema import ReplicasForm
from hotseat.config.schema_base import AsList, AsMapping, AsText, Form, Ignored, ListOrMapping, TextOrMapping, Words
from hotseat.config.units import Duration, KeepAlive, Size, Switch, Ttl, shown

ServerName: TypeAlias = Literal["vllm", "llama-server"]
Memory: TypeAlias = Annotated[Annotated[Size, AsText] | Annotated[dict[str, Size], AsMapping], TextOrMapping]


class SleepForm(Form):
    """How the server sleeps instead of being stopped."""

    suspend: Words = ""
    """What puts the server to sleep: requests to it such as `POST /sleep`, or commands; one, or a list in order."""
    resume: Words = ""
    """What wakes the server, in the same format."""
    memory: Memory | None = None
    """Memory the server keeps while asleep: a size of RAM, or a mapping of sizes per device."""
    server: ServerName | None = None
    """A supported server; provides defaults for the other keys."""
    levels: tuple[Literal[1, 2], ...] = ()
    """Levels of vLLM, in order of preference until measurements exist. Default: 1."""
    timeout: Duration = 120.0
    """Time limit for falling asleep and for waking."""
    ttl: Duration = 0.0
    """Time asleep after which the server is stopped; 0: no limit."""


SleepOrServer: TypeAlias = Annotated[Annotated[ServerName, AsText] | Annotated[SleepForm, AsMapping], TextOrMapping]


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


def _gpus(value: Any) -> Any:
    """`auto`, a number, or a list of devices."""
    if isinstance(value, str) and value.isdecimal():
        value = int(value)
    is_number = isinstance(value, int) and not isinstance(value, bool) and value > 0
    is_list = isinstance(value, list) and value and all(isinstance(each, str) for each in value)
    if value != "auto" and not is_number and not is_list:
        raise ValueError(f"must be auto, a number of cards or a list such as [gpu0, gpu1], not {shown(value)}")
    return value


GpusForm: TypeAlias = Annotated[
    Literal["auto"] | int | tuple[str, ...],
    BeforeValidator(_gpus),
    WithJsonSchema(
        {
            "anyOf": [
                {"enum": ["auto"]},
                {"type": "integer", "minimum": 1},
                {"type": "array", "items": {"type": "string"}, "minItems": 1},
            ],
            "examples": ["auto", 2, ["gpu0", "gpu1"]],
        }
    ),
]


class Filters(Form):
    strip_params: Words = ""
    """Members removed from JSON bodies, comma-separated or as a list; dots address nested members."""
    old_strip_params: Annotated[Words, Field(alias="strip_params")] = ""
    """Deprecated spelling of stripParams, used when that is empty."""
    set_params: dict[str, Any] = Field(default_factory=dict)
    """Members set in JSON bodies; dots address nested members."""
    set_params_by_id: dict[str, dict[str, Any]] = Field(default_factory=dict, alias="setParamsByID")
    """Members to set depending on the requested name; each key becomes a name of the model."""


class TimeoutsForm(Form):
    connect: Duration = 30.0
    """Time limit for connecting to the server; 0: none."""
    keepalive: KeepAlive = 30.0
    """TCP keep-alive interval, at most 32767 s; 0: off."""
    response_header: Duration = 0.0
    """Time limit for the response head; 0: none."""
    tls_handshake: Duration = 10.0
    """Time added to connect for the TLS handshake with an HTTPS server; 0: none."""
    expect_continue: Annotated[Duration, Ignored("The body is sent immediately")] = 1.0
    """Time to wait for 100 Continue before the body is sent."""
    idle_conn: Duration = 90.0
    """How long an idle connection is kept, at most 4 s because llama-server closes it after 5 s."""


class CapabilitiesForm(Form):
    in_: Annotated[tuple[Modality, ...], Field(alias="in")] = ()
    """Input modalities: text, audio, image."""
    out: tuple[Modality, ...] = ()
    """Output modalities: text, audio, image."""
    tools: Switch = False
    """Whether the model supports tool calls."""
    reranker: Switch = False
    """Whether the model is a reranker."""
    context: Annotated[int, Field(ge=0)] = 0
    """Context length in tokens."""


class Compat(Form):
    ignore_websockets: Switch = False
    """WebSockets neither start the model nor keep it loaded."""


class ModelForm(Form):
    """A model and how its server is started."""

    cmd: Annotated[str, Field(min_length=1)]
    """Command line of the server, split like in a shell but run without one. May use ${PORT} and macros."""
    cmd_stop: str = ""
    """Command that stops the server instead of SIGTERM. May use ${PID}."""
    proxy: str = "http://localhost:${PORT}"
    """Base URL of the server: http, https or unix:/path. Models that share one of this machine run one at a time."""
    check_endpoint: str = "/health"
    """Path that returns 200 once the server is ready; `none` waits for an open port."""
    health_check_timeout: Duration = 0.0
    """Time limit for the server to become ready; 0: the global value."""
    ttl: Ttl = -1.0
    """Idle time after which the model is unloaded; -1: globalTTL, 0: never."""
    unload_timeout: Duration = 0.0
    """Time limit for the server to stop before it is killed; 0: the global value."""
    drain_timeout: Duration = 10.0
    """Time for requests in flight to finish when an operator unloads the model."""
    max_request_duration: Duration = 0.0
    """Time limit for one request, after which it is aborted with an error; 0: none."""
    aliases: tuple[str, ...] = ()
    """Other names of the model."""
    name: str = ""
    """Title shown in the model list."""
    description: str = ""
    """Text shown in the model list."""
    unlisted: Switch = False
    """Hide the model from the model list; it remains usable."""
    env: Environment = ()
    """Environment variables of the server: NAME=value entries or a mapping."""
    use_model_name: str = ""
    """Name sent to the server as `model`."""
    filters: Filters = Filters.model_construct()
    """Changes to JSON bodies before they are sent to the server."""
    concurrency_limit: Annotated[int, Field(ge=0)] = 0
    """Maximum number of concurrent requests to the server; the rest wait. 0: no limit."""
    send_loading_state: LoadingStateName | None = None
    """What is sent on a stream while the client waits for the model. Default: the global value."""
    macros: dict[str, Any] = Field(default_factory=dict)
    """Values for ${name} in this model; they override global macros."""
    metadata: dict[str, Any] = Field(default_factory=dict)
    """Arbitrary values, shown under `meta` in the model list."""
    capabilities: CapabilitiesForm = CapabilitiesForm.model_construct()
    """Capabilities shown in the model list."""
    timeouts: TimeoutsForm = TimeoutsForm.model_construct()
    """Time limits for connections to the server."""
    compat: Compat = Compat.model_construct()
    """Compatibility settings."""
    memory: Memory | None = None
    """Memory the model uses: a size on the first device or, with gpus, on its GPUs together; or a mapping of sizes per
    device."""
    gpus: GpusForm | None = None
    """The GPUs that the server may use, chosen at each start where there is memory: as few as it fits on (`auto`), a
    number of them, or exactly those of a list. The server sees only these; ${GPUS} in `cmd`, `cmdStop` and `env` is
    their list. Default: hotseat sets nothing, and the server decides."""
    urgency: Annotated[float, Field(gt=0)] = 1.0
    """Weight of requests that wait for this model."""
    pinned: Switch = False
    """Never unload the model to free memory for others."""
    sleep: SleepOrServer | None = None
    """How the server sleeps instead of being stopped when others need memory: `vllm`, `llama-server` or a mapping."""
    replicas: ReplicasForm = ReplicasForm.model_construct()
    """Number of hosts of a fleet that run the model."""
    hosts: dict[str, str] = Field(default_factory=dict)
    """Labels that a host of a fleet must have to run the model."""


class GroupForm(Form):
    """Models that are treated the same way when another one is loaded."""

    swap: Switch = True
    """Only one member at a time."""
    exclusive: Switch = True
    """Loading a member stops the members of all other groups that are not persistent."""
    persistent: Switch = False
    """Other groups cannot stop the members."""
    members: tuple[str, ...] = ()
    """Names of models; a model belongs to at most one group."""


class MatrixForm(Form):
    """Sets of models that may run together."""

    vars: dict[str, str] = Field(default_factory=dict)
    """Short names for models, to use in sets and evict_costs."""
    evict_costs: dict[str, Annotated[int, Field(gt=0)]] = Field(default_factory=dict, alias="evict_costs")
    """Cost of stopping a model, per model or short name; default 1. The cheapest swap is chosen."""
    sets: dict[str, str] = Field(default_factory=dict)
    """Which models may run together: names joined by & (together), | (either), ( ) and +set for another set."""


class RouterSettings(Form):
    groups: dict[str, GroupForm] = Field(default_factory=dict)
    """Same as the top-level key."""
    matrix: MatrixForm = MatrixForm.model_construct()
    """Same as the top-level key."""


class Router(Form):
    use: Literal["group", "matrix", "memory"] = "group"
    """What decides which models run together: the groups, the matrix, or memory alone (with devices)."""
    settings: RouterSettings = RouterSettings.model_construct()
    """The groups and the matrix."""


class Fifo(Form):
    priority: dict[str, int] = Field(default_factory=dict)
    """Priority per model or alias, default 0; each step up doubles the model's urgency."""


class QueueSettings(Form):
    fifo: Fifo = Fifo.model_construct()
    """Settings of the scheduler."""


class Queue(Form):
    use: Literal["fifo"] = "fifo"
    """The only value; it means hotseat's own scheduler."""
    settings: QueueSettings = QueueSettings.model_construct()
    """Settings per scheduler."""


class Routing(Form):
    router: Router = Router.model_construct()
    """Which models run together."""
    scheduler: Queue = Queue.model_construct()
    """Order in which requests are served."""


class SelectorSettings(Form):
    spillover: Annotated[int, Field(ge=1)] = 1
    """Requests per target before the next target is used."""


class SelectorForm(Form):
    strategy: Literal["warm", "pin", "spillover"]
    """How the target is chosen. warm: the first that is ready, else the first that is loading, else the first; pin:
    always the first; spillover: a running one with a free place, else the next one."""
    targets: Annotated[tuple[str, ...], Field(min_length=1)]
    """Names of models."""
    settings: SelectorSettings = SelectorSettings.model_construct()
    """Settings of the strategy."""
    name: str = ""
    """Title shown in the model list."""
    description: str = ""
    """Text shown in the model list."""
    unlisted: Switch = False
    """Hide the name from the model list; it remains usable."""
    metadata: dict[str, Any] = Field(default_factory=dict)
    """Arbitrary values for the model list."""


class ProfileForm(Form):
    description: str = ""
    """Purpose of the profile."""
    pins: Annotated[dict[str, str | None], Field(min_length=1)]
    """Maps names to models while the profile is active."""


class PeerTimeouts(TimeoutsForm):
    response_header: Duration = 600.0
    """Time limit for the response head; long, because the peer may be loading a model."""


def _sendable(key: str) -> str:
    if any(sign.isspace() or not sign.isprintable() for sign in key):
        raise ValueError("a key must not contain spaces")
    return key


class PeerForm(Form):
    proxy: str
    """Base URL of the peer."""
    api_key: Annotated[str, AfterValidator(_sendable)] = ""
    """API key sent to the peer instead of the client's key."""
    models: Annotated[tuple[str, ...], Field(min_length=1)]
    """Models of the peer."""
    filters: Filters = Filters.model_construct()
    """Changes to JSON bodies before they are sent to the peer."""
    timeouts: PeerTimeouts = PeerTimeouts.model_construct()
    """Time limits for connections to the peer."""
