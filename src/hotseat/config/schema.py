"""All keys of a configuration file: llama-swap's under their own names, and hotseat's."""

import re
from hashlib import sha256
from typing import Annotated, Any, Literal, TypeAlias

from pydantic import AfterValidator, BeforeValidator, Field, WithJsonSchema

from hotseat.config.fleet_schema import FleetForm
from hotseat.config.model_schema import (
    GroupForm,
    LoadingStateName,
    MatrixForm,
    ModelForm,
    PeerForm,
    ProfileForm,
    Routing,
    SelectorForm,
)
from hotseat.config.problems import nearest
from hotseat.config.schema_base import AsMapping, AsText, Form, Ignored, Later, TextOrMapping, is_key
from hotseat.config.units import SWITCH_SCHEMA, Duration, Listen, Network, OptionalBudget, Size, Switch, shown
from hotseat.settings import USER, GiB, Settings

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
_HEADER = re.compile(r"X-(?!Request-Id$|Api-Key$|Forwarded-(?:For|Proto|Host)$|Real-Ip$)[A-Za-z0-9-]+", re.IGNORECASE)
"""Names that mean nothing else here."""
_HASH_OF_NOTHING = f"sha256:{sha256(b'').hexdigest()}"
LONGEST_HOLDER = 64
ON, OFF = ("on", "true", "yes"), ("off", "false", "no")


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
    if name.startswith(USER):
        raise ValueError(f"a name must not begin with {USER}, which stands for users who have signed in at a proxy")
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


def _header(name: str) -> str:
    if not _HEADER.fullmatch(name):
        raise ValueError("must be the name of a header of its own, such as X-Forwarded-User")
    return name


Secret: TypeAlias = Annotated[str, AfterValidator(_key)]


class KeyForm(Form):
    key: Annotated[str, AfterValidator(_key)] = ""
    """The secret a client sends. `${env.NAME}` reads it from the environment, and model servers do not get it."""
    file: str = ""
    """A file that contains only the key; replaces key."""
    hash: Annotated[str, AfterValidator(_hash)] = ""
    """`sha256:` and the digest of the key; replaces key, so that the configuration does not contain the secret."""
    name: Annotated[str, AfterValidator(_holder)] = ""
    """Name in the log, in metrics and in /hotseat/keys. Default: the first digits of the digest."""
    role: Literal["inference", "operate", "admin"] = "inference"
    """Permissions of the key: inference, operate or admin; each includes the ones before it."""
    models: tuple[str, ...] = ()
    """Models, selectors and peers' models the key may use; an alias counts as its model. Empty: all."""
    requests: OptionalBudget = None
    """How many requests to models in a second, minute, hour or day; further ones get 429. Default: no limit."""
    tokens: OptionalBudget = None
    """How many tokens of prompts and answers together; requests in progress are finished. Default: no limit."""
    concurrency_limit: Annotated[int, Field(ge=0)] = 0
    """Concurrent requests to models, waiting or running, and event feeds; those beyond it get 429. 0: no limit."""
    priority: Literal["interactive", "batch"] = "interactive"
    """Waiting requests of a batch key are served after those of others, but every fifth request served is one."""


class SignInForm(Form):
    user_header: Annotated[str, AfterValidator(_header)]
    """Header with the name of the user, believed from `trustedProxies` only. It is not forwarded."""
    role_header: Annotated[str, AfterValidator(_header)] = ""
    """Header with the user's role: inference, operate or admin. Default, also if it is missing: inference."""


class TlsForm(Form):
    cert: Annotated[str, Field(min_length=1)]
    """File with the certificate and its chain (PEM); a reload reads it again."""
    key: str = ""
    """File with the private key, if it is separate."""


class OllamaForm(Form):
    listen: Listen | None = None
    """Second address for clients of Ollama, which expect it at 127.0.0.1:11434: plain HTTP also with `tls`, with the
    same keys and rules as `listen`. Its bare address says "Ollama is running". Default: none."""


class ConversationsForm(Form):
    disk: Size = 20 * GiB
    """Maximum disk space of saved conversations, further limited by the free space. 0: off."""


def _on_or_off(value: Any) -> str:
    word = str(value).lower()
    if word in ON:
        return "on"
    if word in OFF:
        return "off"
    said = f"must be on, off or a mapping such as {{disk: 20GiB}}, not {shown(value)}"
    raise ValueError(". ".join(filter(None, (said, nearest(word, (*ON, *OFF))))))


ConversationsOrSwitch: TypeAlias = Annotated[
    Annotated[Literal["off", "on"], BeforeValidator(_on_or_off), WithJsonSchema(SWITCH_SCHEMA), AsText]
    | Annotated[ConversationsForm, AsMapping],
    TextOrMapping,
]


class DeviceForm(Form):
    memory: Size
    """Memory of the device."""
    reserve: Size = 0
    """Memory that hotseat does not use for models."""


class SchedulerForm(Form):
    patience: Annotated[float, Field(ge=0)] = 2.0
    """How long a busy model is protected from a swap, as a multiple of the load times of both models."""
    max_wait: Duration | None = None
    """Target for the longest wait: turns are shortened to meet it where load times of the requested models allow."""
    max_queue: Annotated[int, Field(ge=1)] = 512
    """Maximum number of waiting requests, beyond which new ones get 429; one client may use at most three quarters."""


class LimitsForm(Form):
    body: Size = _LIMITS.body
    """Maximum size of a request body."""
    json_body: Size = _LIMITS.json_body
    """Maximum size of a JSON body."""
    uploads: Size = _LIMITS.uploads
    """Maximum total size of request bodies stored on disk at a time; one client may use half of it. Requests beyond
    it get 429. 0: four times `body`."""
    idle_timeout: Duration = _LIMITS.idle_timeout_s
    """Time after which a connection is closed that is idle, on which a request body does not continue, or whose client
    does not read its stream."""


class ReadyForm(Form):
    oldest_wait: Duration = _DEFAULT.readiness.oldest_wait_s
    """/hotseat/ready returns 503 while a request has waited longer than this."""


class ShutdownForm(Form):
    notice: Duration = _DEFAULT.shutdown.notice_s
    """After SIGTERM: how long clients are still served while /hotseat/ready returns 503, if it was requested
    within the last minute."""
    drain: Duration = _DEFAULT.shutdown.drain_s
    """After the notice: time for requests in progress to finish."""


class Startup(Form):
    preload: tuple[str, ...] = ()
    """Models loaded when hotseat starts, in this order."""


class Hooks(Form):
    on_startup: Annotated[Startup, Field(alias="on_startup")] = Startup.model_construct()
    """Actions at startup."""


class UpstreamForm(Form):
    ignore_paths: tuple[Annotated[str, AfterValidator(_pattern)], ...] = _DEFAULT.ignore_paths
    """Regular expressions; a path under /upstream/{model} or at LABEL.localhost that matches never starts the model."""
    trust_pages: Switch = False
    """Give web pages of model servers under hotseat's address the same rights as its own. Otherwise a browser on this
    machine is redirected to their own address, LABEL.localhost, and elsewhere they are sandboxed."""


class Store(Form):
    path: Annotated[str, Ignored("llama-swap's file has its own format and is not used")] = ""
    """llama-swap's activity file."""


class ActivityForm(Form):
    keep_days: Annotated[float, Field(ge=0)] = 0.0
    """Days for which finished requests are stored in the state directory: times, models, clients, paths and tokens,
    never their contents. 0: not stored."""


class Activity(Form):
    session_id: Annotated[tuple[str, ...], Field(alias="session_id"), Later("Session ids are not shown")] = (
        "X-Session-ID",
        "X-Litellm-Session-Id",
    )
    """Request headers shown as the session id."""


class Ui(Form):
    activity: Activity = Activity.model_construct()
    """The view of requests."""


class Performance(Form):
    disabled: Switch = False
    """Do not measure memory and GPUs: models count as declared or estimated, and other programs do not count."""
    every: Annotated[Duration, Field(ge=1)] = _DEFAULT.measuring.every_s
    """Interval of memory measurements while a model runs and `devices` are configured."""


class ModelsDir(ModelForm):
    """What each file of a folder is run with: the keys of a model, where ${MODEL_PATH} is the file."""

    path: Annotated[str, Field(min_length=1)]
    """The folder; ~ is your home directory."""


class Config(Form):
    """The configuration of hotseat."""

    models: dict[str, ModelForm]
    """The models, by name."""
    models_dir: ModelsDir | None = None
    """A folder whose GGUF files are also models, named after their files; new files are detected while hotseat runs.
    Files of equal name in different subfolders are named with their folders, such as `ORG/REPO/FILE`.
    Its other keys are those of a model, where ${MODEL_PATH} is the file; in `cmd`, ${MMPROJ} is `--mmproj FILE` if a
    projector for it lies beside it (*mmproj*.gguf), else nothing."""

    listen: Listen = _DEFAULT.listen
    """Address and port to listen on."""
    tls: TlsForm | None = None
    """Serve HTTPS. Default: plain HTTP."""
    ollama: OllamaForm = OllamaForm.model_construct()
    """For programs that know only Ollama."""
    allow_open: Switch = False
    """Allow an address that other machines can reach without API keys."""
    allowed_hosts: tuple[Annotated[str, AfterValidator(_host)], ...] = ()
    """Host names allowed without a key, besides IP addresses, single words, this machine's own names and names
    under .localhost, .local and .internal; `.example` stands for all names under it, `*` for any. A name under
    .localhost that is listed here is never that of a model server's pages."""
    allowed_origins: tuple[Annotated[str, AfterValidator(_origin)], ...] = ()
    """Origins of web pages that may use hotseat, such as https://chat.example; without a scheme, any scheme.
    `*`: pages of any origin may use models but not manage them; pages of this machine may do so anyway."""
    trusted_proxies: tuple[Network, ...] = ()
    """Addresses of proxies whose forwarding headers and `clientHeader` are believed."""
    client_header: Annotated[str, AfterValidator(_client_header)] = ""
    """Header that identifies clients without an API key, believed from `trustedProxies` only."""
    sign_in: SignInForm | None = None
    """Users who sign in at a reverse proxy; a request needs such a user or an API key. Default: keys only."""
    api_keys: tuple[Annotated[Annotated[Secret, AsText] | Annotated[KeyForm, AsMapping], TextOrMapping], ...] = ()
    """API keys; a string has full access, a mapping defines its permissions."""
    default_model: str = ""
    """Model for requests that do not name one."""
    return_to_default: Switch = False
    """Reload the default model after another model was unloaded by its ttl, if no model must be evicted for it."""
    error_format: Literal["auto", "text", "openai"] = "auto"
    """Format of error bodies: text, openai, or auto, which chooses by path and client."""
    metrics: Switch = True
    """Whether /metrics and /metrics/upstreams are served."""
    scheduler: SchedulerForm = SchedulerForm.model_construct()
    """Settings of the scheduler."""
    devices: Annotated[
        Annotated[Literal["auto"], AsText] | Annotated[dict[str, DeviceForm], AsMapping], TextOrMapping
    ] = Field(default_factory=dict)
    """Memory of the devices, or auto; models then run concurrently as long as they fit."""
    yield_to: tuple[Annotated[str, Field(min_length=1)], ...] = ()
    """Programs that have precedence (`*` and `?` are wildcards): while one of them runs, no model does."""
    inference_paths: tuple[Annotated[str, AfterValidator(_path)], ...] = ()
    """Additional paths of model servers that keys with the role inference may use, such as /my/generate."""
    passthrough: Literal["auto", "strict"] = "auto"
    """Whether hotseat answers the routes of Ollama, llama.cpp's router and llama-swap and a browser at its bare address
    (auto), or forwards all but its own /hotseat/ and the contract's paths to a model (strict)."""
    limits: LimitsForm = LimitsForm.model_construct()
    """Limits for clients."""
    conversations: ConversationsOrSwitch = "off"
    """Keep the conversations of llama-servers across swaps: off, on, or a mapping with the disk space. Their prompts
    are then written to a private folder below `$XDG_CACHE_HOME` or `~/.cache`, which is removed when hotseat ends."""
    activity: ActivityForm = ActivityForm.model_construct()
    """Storage of finished requests for `hotseat activity`."""
    ready: ReadyForm = ReadyForm.model_construct()
    """When /hotseat/ready returns 503."""
    shutdown: ShutdownForm = ShutdownForm.model_construct()
    """Timing of a shutdown after SIGTERM."""
    crash_grace: Duration = _DEFAULT.crash_grace_s
    """How long model servers are kept if hotseat is killed, so that the next one adopts them; 0: they end with it."""
    fleet: FleetForm | None = None
    """The fleet that this host joins. Default: none."""

    health_check_timeout: Duration = 0.0
    """Time limit for a server to become ready; 0: 120 s, or 20 s per GB for files of more than 6 GB. A load in
    progress keeps the limit it began with."""
    global_ttl: Annotated[Duration, Field(alias="globalTTL")] = 0.0
    """Idle time after which a model is unloaded; 0: never."""
    unload_timeout: Duration = 10.0
    """Time limit for a server to stop before it is killed."""
    start_port: Annotated[int, Field(ge=1, le=65535)] | None = None
    """First ${PORT}; models get consecutive ports in the order of their names. Default: chosen by the kernel."""
    log_level: Literal["debug", "info", "warn", "error"] = "info"
    """Least severe messages to log: debug, info, warn or error."""
    log_time_format: TimeFormat = ""
    """Time format of log lines, such as rfc3339, kitchen or stamp; empty: no time."""
    log_to_stdout: Literal["proxy", "upstream", "both", "none"] = "proxy"
    """Which logs go to stdout: hotseat's (proxy), the model servers' (upstream), both or none."""
    log_format: Literal["auto", "text", "json"] = "auto"
    """Log as text or JSON; auto: text on a terminal and in systemd's journal, otherwise JSON."""
    send_loading_state: LoadingStateName = "off"
    """What is sent on a stream while the client waits: off, comments, or reasoning (true)."""
    read_ahead: Switch = True
    """Read a model's files into the page cache while other models are being unloaded for it."""
    include_aliases_in_list: Switch = False
    """List aliases as separate entries in the model list."""
    macros: dict[str, Any] = Field(default_factory=dict)
    """Values for ${name}."""
    groups: dict[str, GroupForm] = Field(default_factory=dict)
    """Which models run together."""
    matrix: MatrixForm = MatrixForm.model_construct()
    """Which models run together, as expressions; replaces groups."""
    routing: Routing = Routing.model_construct()
    """Newer location of groups and matrix."""
    selectors: dict[str, SelectorForm] = Field(default_factory=dict)
    """Names that resolve to one of several models."""
    profiles: dict[str, ProfileForm] = Field(default_factory=dict)
    """Names that resolve to other models while the profile is active; `hotseat profile NAME` activates one."""
    peers: dict[str, PeerForm] = Field(default_factory=dict)
    """Other servers and their models; a model is named `peer/model`, or `model` where that is unambiguous."""
    hooks: Hooks = Hooks.model_construct()
    """Actions at certain events."""
    upstream: UpstreamForm = UpstreamForm.model_construct()
    """Requests under /upstream/{model}."""

    metrics_max_in_memory: Annotated[int, Field(ge=0), Later("hotseat limits its own history")] = 1000
    """Requests kept in memory."""
    capture_buffer: Annotated[int, Field(ge=0), Later("Nothing is captured")] = 0
    """Megabytes for captured requests; 0 is off."""
    log_requests: Annotated[Switch, Ignored("It has no effect in llama-swap either")] = False
    """No effect."""
    store: Store = Store.model_construct()
    """llama-swap's history."""
    ui: Ui = Ui.model_construct()
    """The dashboard."""
    performance: Performance = Performance.model_construct()
    """Memory measurement."""
