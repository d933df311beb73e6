"""All keys of a configuration file: llama-swap's under their own names, and ours."""

from __future__ import annotations

import re
from hashlib import sha256
from typing import Annotated, Any, Literal, TypeAlias

from pydantic import AfterValidator, Field

from hotseat.config.fleet_schema import FleetForm
from hotseat.config.model_schema import LoadingStateName, ModelForm
from hotseat.config.routing_schema import GroupForm, MatrixForm, PeerForm, ProfileForm, Routing, SelectorForm
from hotseat.config.schema_base import AsMapping, AsText, Form, Ignored, Later, TextOrMapping
from hotseat.config.secrets import is_key
from hotseat.config.units import Duration, Listen, Network, Size, Switch
from hotseat.settings import Settings

TimeFormat: TypeAlias = Literal[
    "", "ansic", "unixdate", "rubydate", "rfc822", "rfc822z", "rfc850", "rfc1123", "rfc1123z", "rfc3339",
    "rfc3339nano", "kitchen", "stamp", "stampmilli", "stampmicro", "stampnano",
]  # fmt: skip

_DEFAULT = Settings()
_LIMITS = _DEFAULT.limits
_SHA256 = re.compile(r"sha256:[0-9a-fA-F]{64}")
_PLAIN_PATH = re.compile(r"(?:/[A-Za-z0-9._~!$&'()*+,=:@-]+)+/?")
_ORIGIN = re.compile(r"\*|null|(?:[A-Za-z][A-Za-z0-9+.-]*://)?[^\s/*?#@]+/?")
_HOST = re.compile(r"\*|(?:(?:\*?\.)?[A-Za-z0-9_-][A-Za-z0-9_.-]*|\[[0-9A-Fa-f:.]+\])(?::[0-9]+)?")
_HASH_OF_NOTHING = f"sha256:{sha256(b'').hexdigest()}"
LONGEST_HOLDER = 64


def _key(secret: str) -> str:
    if not is_key(secret):
        raise ValueError("a key must not be empty or contain spaces")
    return secret


def _hash(text: str) -> str:
    if not _SHA256.fullmatch(text):
        raise ValueError("must be sha256: and 64 hexadecimal digits, as `printf %s KEY | sha256sum` prints them")
    if text.lower() == _HASH_OF_NOTHING:
        raise ValueError(
            "is the hash of an empty key, which is never accepted. Hash the key itself: printf %s KEY | sha256sum"
        )
    return text


def _origin(origin: str) -> str:
    if not _ORIGIN.fullmatch(origin):
        raise ValueError("must be one origin, such as https://chat.example, or *")
    return origin


def _host(host: str) -> str:
    if not _HOST.fullmatch(host):
        raise ValueError("must be a host name such as models.example, .example for all names under it, or *")
    return host


def _holder(name: str) -> str:
    if not name.isprintable() or len(name) > LONGEST_HOLDER:
        raise ValueError(f"a name must be printable and have at most {LONGEST_HOLDER} characters")
    return name


def _path(path: str) -> str:
    if not _PLAIN_PATH.fullmatch(path):
        raise ValueError("must be one path that begins with a slash, without a query, spaces or % signs")
    return path


def _pattern(pattern: str) -> str:
    try:
        re.compile(pattern)
    except re.error as error:
        raise ValueError(f"not a regular expression: {error}") from None
    return pattern


def _client_header(name: str) -> str:
    if name.lower() == "x-request-id":
        raise ValueError("X-Request-Id identifies requests, not clients")
    return name


Secret: TypeAlias = Annotated[str, AfterValidator(_key)]


class KeyForm(Form):
    key: Annotated[str, AfterValidator(_key)] = ""
    """The secret a client sends; `${env.NAME}` takes it out of the environment, also of model servers."""
    file: str = ""
    """In place of key: a file that holds nothing else."""
    hash: Annotated[str, AfterValidator(_hash)] = ""
    """In place of key: `sha256:` and the digest of the secret, so that the configuration does not hold it."""
    name: Annotated[str, AfterValidator(_holder)] = ""
    """What its holder is called in the log, in metrics and in /hotseat/keys; without it, the digest's first digits."""
    role: Literal["inference", "operate", "admin"] = "inference"
    """What its holder may do."""
    models: tuple[str, ...] = ()
    """Models, selectors and peers' models it may ask for; an alias counts as its model. Empty: all."""
    requests_per_minute: Annotated[int, Field(ge=0)] = 0
    """Requests to models, as many as that at once at most; the next ones get 429. 0: no limit."""
    concurrency_limit: Annotated[int, Field(ge=0)] = 0
    """Requests to models that may wait or run at a time; the next ones get 429. 0: no limit."""


class DeviceForm(Form):
    memory: Size
    """How much memory the device has."""
    reserve: Size = 0
    """How much of it hotseat leaves alone."""


class SchedulerForm(Form):
    patience: Annotated[float, Field(ge=0)] = 2.0
    """How many load times a request waits before the model it waits for takes the seat."""
    max_wait: Duration | None = None
    """Turns are shortened so that a rotation of all models in demand keeps this, where their load times allow it."""
    max_queue: Annotated[int, Field(ge=1)] = 512
    """How many requests may wait before new ones get 429; those of one client have three quarters of it at most."""


class LimitsForm(Form):
    header: Size = _LIMITS.header
    """Largest request head."""
    body: Size = _LIMITS.body
    """Largest request body."""
    json_body: Size = _LIMITS.json_body
    """Largest JSON body."""
    uploads: Size = _LIMITS.uploads
    """Largest sum of all bodies that are kept on disk at a time, and twice what one address may have of it; the next
    ones get 429. 0 is four times `body`."""
    connections: Annotated[int, Field(ge=1)] = _LIMITS.connections
    """Connections of clients at a time, as far as there are file descriptors: two for each."""
    connections_per_address: Annotated[int, Field(ge=1)] = _LIMITS.per_address
    """How many of them one address may have; `trustedProxies` may have all."""
    header_timeout: Duration = _LIMITS.header_timeout_s
    """Time a client has to send its head, and for a TLS handshake."""
    body_timeout: Duration = _LIMITS.body_timeout_s
    """Time a client may pause within its body."""
    idle_timeout: Duration = _LIMITS.idle_timeout_s
    """Time a client may leave a connection, or a stream it should read, alone."""


class ReadyForm(Form):
    oldest_wait: Duration = _DEFAULT.readiness.oldest_wait_s
    """Not ready while a request has waited longer than this."""
    longest_unload: Duration = _DEFAULT.readiness.longest_unload_s
    """Not ready while a server has been stopping for longer than this."""


class ShutdownForm(Form):
    notice: Duration = _DEFAULT.shutdown.notice_s
    """After SIGTERM: how long clients are still served while /hotseat/ready answers 503, if somebody asked for it
    within the last minute."""
    drain: Duration = _DEFAULT.shutdown.drain_s
    """How long requests under way have to end after that."""


class Startup(Form):
    preload: tuple[str, ...] = ()
    """Models loaded when hotseat starts, in this order."""


class Hooks(Form):
    on_startup: Annotated[Startup, Field(alias="on_startup")] = Startup()
    """What happens when hotseat starts."""


class UpstreamForm(Form):
    ignore_paths: tuple[Annotated[str, AfterValidator(_pattern)], ...] = _DEFAULT.ignore_paths
    """Regular expressions; a path under /upstream/{model} that matches never starts the model."""
    trust_pages: Switch = False
    """Whether web pages of model servers may do what hotseat's own may. Without it they are shown in a sandbox."""


class Store(Form):
    path: Annotated[str, Ignored("llama-swap's file has a form of its own and is left alone")] = ""
    """llama-swap's activity file."""


class ActivityForm(Form):
    keep_days: Annotated[float, Field(ge=0)] = 0.0
    """For how long finished requests are kept on disk, in the state directory: times, models, clients, paths and
    tokens, never what was said. 0 is not at all."""
    max_rows: Annotated[int, Field(ge=1)] = _DEFAULT.activity.most
    """How many of them at most; the oldest go first."""


class Activity(Form):
    session_id: Annotated[tuple[str, ...], Field(alias="session_id"), Later("Session ids are not shown")] = (
        "X-Session-ID",
        "X-Litellm-Session-Id",
    )
    """Request headers shown as session id."""


class Ui(Form):
    activity: Activity = Activity()
    """The view of requests."""


class Performance(Form):
    disabled: Switch = False
    """Measure no memory: models count as declared or estimated, and what others use is not seen."""
    every: Annotated[Duration, Field(ge=1)] = _DEFAULT.measuring.every_s
    """How often memory is measured while a model runs, where `devices` are configured."""


class ModelsDir(ModelForm):
    """What each file of a folder is run with: the keys of a model, where ${MODEL_PATH} is the file."""

    path: Annotated[str, Field(min_length=1)]
    """The folder; ~ is your home."""


class Config(Form):
    """The configuration of hotseat."""

    models: dict[str, ModelForm]
    """The models, by name."""
    models_dir: ModelsDir | None = None
    """A folder whose GGUF files are models too, each by the name of its file; new ones are seen while hotseat runs.
    Its other keys are those of a model, where ${MODEL_PATH} is the file."""

    listen: Listen = _DEFAULT.listen
    """Address clients connect to."""
    allow_open: Switch = False
    """Allow an address other machines can reach without any key."""
    allowed_hosts: tuple[Annotated[str, AfterValidator(_host)], ...] = ()
    """Host names clients may use without a key, besides addresses, single words, this machine's own names and names
    under .localhost, .local and .internal; `.example` stands for all names under it, `*` for any."""
    allowed_origins: tuple[Annotated[str, AfterValidator(_origin)], ...] = ()
    """Origins of web pages that may use hotseat, such as https://chat.example; without a scheme, any scheme.
    `*`: pages of any origin may ask models, not manage them, as pages of this machine may anyway."""
    trusted_proxies: tuple[Network, ...] = ()
    """Addresses of proxies whose word about the client counts."""
    client_header: Annotated[str, AfterValidator(_client_header)] = ""
    """Header that tells clients apart."""
    api_keys: tuple[Annotated[Annotated[Secret, AsText] | Annotated[KeyForm, AsMapping], TextOrMapping], ...] = ()
    """Keys of clients; a text may do everything, a mapping says what."""
    default_model: str = ""
    """Model of requests that name none."""
    return_to_default: Switch = False
    """Load the default model again when another one was unloaded after its ttl and nobody has to go for it."""
    error_format: Literal["auto", "text", "openai"] = "auto"
    """Shape of error bodies."""
    metrics: Switch = True
    """Whether /metrics exists."""
    scheduler: SchedulerForm = SchedulerForm()
    """How turns are taken."""
    devices: Annotated[
        Annotated[Literal["auto"], AsText] | Annotated[dict[str, DeviceForm], AsMapping], TextOrMapping
    ] = Field(default_factory=dict)
    """Memory of the devices, or auto; lets models run together as long as they fit."""
    yield_to: tuple[Annotated[str, Field(min_length=1)], ...] = ()
    """Names of programs that have precedence (`*` and `?` as in a shell): while one runs, no model does."""
    inference_paths: tuple[Annotated[str, AfterValidator(_path)], ...] = ()
    """Further paths of model servers that keys with the role inference may use, such as /my/generate."""
    limits: LimitsForm = LimitsForm()
    """What clients may send."""
    activity: ActivityForm = ActivityForm()
    """Which finished requests `hotseat activity` can show."""
    ready: ReadyForm = ReadyForm()
    """When /hotseat/ready answers 503."""
    shutdown: ShutdownForm = ShutdownForm()
    """How much time there is between SIGTERM and the end."""
    fleet: FleetForm | None = None
    """The hosts that this one belongs to; without it, it is alone."""

    health_check_timeout: Duration = 0.0
    """Time until a server must be ready; 0 is 120 s, and longer for files of more than 6 GB: 20 s for each GB."""
    global_ttl: Annotated[Duration, Field(alias="globalTTL")] = 0.0
    """Idle time after which a model is unloaded; 0 is never."""
    unload_timeout: Duration = 10.0
    """Time a stopping server has before it is killed."""
    start_port: Annotated[int, Field(ge=1, le=65535)] | None = None
    """First ${PORT}, counted up in the order of the models' names; without it the kernel chooses."""
    log_level: Literal["debug", "info", "warn", "error"] = "info"
    """How much is logged."""
    log_time_format: TimeFormat = ""
    """How log lines show the time; empty is not at all."""
    log_to_stdout: Literal["proxy", "upstream", "both", "none"] = "proxy"
    """Whose output goes to stdout."""
    log_format: Literal["auto", "text", "json"] = "auto"
    """Lines for people or JSON for programs; auto is text on a terminal and in systemd's journal, else JSON."""
    send_loading_state: LoadingStateName = "off"
    """What a client that asked for a stream is sent while it waits: off, comments, or reasoning (true)."""
    read_ahead: Switch = True
    """Bring a model's files into the page cache while others make room for it."""
    include_aliases_in_list: Switch = False
    """Aliases as entries of their own in the model list."""
    macros: dict[str, Any] = Field(default_factory=dict)
    """Texts for ${name}."""
    groups: dict[str, GroupForm] = Field(default_factory=dict)
    """Which models run together."""
    matrix: MatrixForm = MatrixForm()
    """Which models run together, as expressions; in place of groups."""
    routing: Routing = Routing()
    """Newer place of groups and matrix."""
    selectors: dict[str, SelectorForm] = Field(default_factory=dict)
    """Names that lead to one of several models."""
    profiles: dict[str, ProfileForm] = Field(default_factory=dict)
    """Sets of names that lead elsewhere while the profile is active; `hotseat profile NAME` activates one."""
    peers: dict[str, PeerForm] = Field(default_factory=dict)
    """Other servers and the models they have; each is called `peer/model`, or `model` where that is clear."""
    hooks: Hooks = Hooks()
    """What happens when."""
    upstream: UpstreamForm = UpstreamForm()
    """Requests under /upstream/{model}."""

    metrics_max_in_memory: Annotated[int, Field(ge=0), Later("Hotseat bounds its own history")] = 1000
    """Requests kept in memory."""
    capture_buffer: Annotated[int, Field(ge=0), Later("Nothing is captured")] = 0
    """Megabytes for captured requests; 0 is off."""
    log_requests: Annotated[Switch, Ignored("It has no effect in llama-swap either")] = False
    """Without effect."""
    store: Store = Store()
    """llama-swap's history."""
    ui: Ui = Ui()
    """The dashboard."""
    performance: Performance = Performance()
    """Polling of the machine."""
