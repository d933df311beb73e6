"""How hotseat itself behaves, as configured (what may run is in the catalog). Frozen and validated."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import Enum
from typing import TYPE_CHECKING, NamedTuple

from hotseat.identifiers import DEFAULT_PREFIX

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from hotseat.identifiers import Bytes, HostName, Seconds

KiB, MiB, GiB = 1 << 10, 1 << 20, 1 << 30


class ErrorFormat(Enum):
    AUTO = "auto"
    TEXT = "text"
    OPENAI = "openai"


class Role(Enum):
    """What a key may do; each role includes the ones before it."""

    INFERENCE = "inference"
    OPERATE = "operate"
    ADMIN = "admin"


@dataclass(frozen=True, slots=True)
class ApiKey:
    secret: str = field(repr=False)
    """Empty if only the hash is known."""
    role: Role = Role.INFERENCE
    name: str = ""
    """Of its holder, for display."""
    hashed: str = field(default="", repr=False)
    """SHA-256 of a secret that is not known here, in hexadecimal."""
    models: tuple[str, ...] = ()
    """Models it may use; empty: all."""
    per_minute: int | None = None
    """Requests to models; None: no limit."""
    concurrency: int | None = None
    """Concurrent requests to models; None: no limit."""


@dataclass(frozen=True, slots=True)
class Access:
    """Who may connect."""

    allow_open: bool = False
    allowed_hosts: tuple[str, ...] = ()
    allowed_origins: tuple[str, ...] = ()
    trusted_proxies: tuple[str, ...] = ()
    client_header: str = ""
    api_keys: tuple[ApiKey, ...] = ()


@dataclass(frozen=True, slots=True)
class Limits:
    header: Bytes = 32 * KiB
    body: Bytes = GiB
    json_body: Bytes = 16 * MiB
    uploads: Bytes = 0
    """Request bodies on disk, all clients together; 0: four times `body`."""
    connections: int = 10_000
    per_address: int = 5_000
    """Of one address, so that no single one can lock out the others."""
    header_timeout_s: Seconds = 10.0
    body_timeout_s: Seconds = 30.0
    idle_timeout_s: Seconds = 60.0

    @property
    def most_uploads(self) -> Bytes:
        """One body of the largest allowed size always fits if nothing else is uploaded."""
        return max(self.uploads or 4 * self.body, self.body)


@dataclass(frozen=True, slots=True)
class Readiness:
    """When `/hotseat/ready` answers no."""

    oldest_wait_s: Seconds = 900.0
    """Longer than any sane load: a request that waits this long waits in vain."""
    longest_unload_s: Seconds = 60.0
    """A server that still exists this long after it was killed, maybe in a driver call, keeps its memory."""


@dataclass(frozen=True, slots=True)
class ActivityKept:
    """Finished requests on disk."""

    keep_s: Seconds = 0.0
    """0: none."""
    most: int = 1_000_000


@dataclass(frozen=True, slots=True)
class Conversations:
    """What model servers have computed of conversations, on disk while they do not run."""

    disk: Bytes = 0
    """All of them together; 0: none are kept."""


class LogFormat(Enum):
    AUTO = "auto"
    """Text on a terminal, else JSON."""
    TEXT = "text"
    JSON = "json"


@dataclass(frozen=True, slots=True)
class Measuring:
    """How memory is measured, if devices have budgets."""

    is_on: bool = True
    """False: declared or estimated figures count, and other programs are ignored."""
    every_s: Seconds = 5.0


@dataclass(frozen=True, slots=True)
class Shutdown:
    """How long a shutdown may take after SIGTERM."""

    notice_s: Seconds = 3.0
    """Serving continues while a load balancer notices that `/hotseat/ready` answers no."""
    drain_s: Seconds = 10.0
    """No new requests; those in flight may finish."""


@dataclass(frozen=True, slots=True)
class Logging:
    level: str = "info"
    """debug, info, warn or error."""
    time_format: str = ""
    """One of llama-swap's fifteen names, or empty for none."""
    to_stdout: str = "proxy"
    """proxy, upstream, both or none."""
    form: LogFormat = LogFormat.AUTO


@dataclass(frozen=True, slots=True)
class NatsLogin:
    """Credentials for NATS. Files are read when a connection is made."""

    user: str = ""
    password: str = field(default="", repr=False)
    token: str = field(default="", repr=False)
    credentials: str = ""
    """File with a JWT and its key, as written by `nsc`."""
    nkey: str = ""
    """File with a seed."""
    ca: str = ""
    """File with trusted authorities; empty: the system's."""
    cert: str = ""
    key: str = ""
    """Files with the client certificate and its key, if NATS asks for one."""


@dataclass(frozen=True, slots=True)
class Fleet:
    """The fleet this host belongs to."""

    nats: tuple[str, ...]
    name: HostName
    """Of this host; unique in the fleet."""
    address: str = ""
    """How others reach this host: `http://host:port`; empty: as it listens."""
    labels: Mapping[str, str] = field(default_factory=dict)
    secrets: tuple[str, ...] = field(default=(), repr=False)
    """By which hosts authenticate each other, the same on all; two during a rotation."""
    login: NatsLogin = NatsLogin()
    prefix: str = DEFAULT_PREFIX
    """Keeps fleets apart that share a NATS account."""


class TlsFiles(NamedTuple):
    """PEM files."""

    cert: Path
    key: Path | None = None
    """None: the key is in the same file."""


@dataclass(frozen=True, slots=True)
class Settings:
    listen: tuple[str, int] = ("127.0.0.1", 8080)
    tls: TlsFiles | None = None
    """None: plain HTTP."""
    ollama_listen: tuple[str, int] | None = None
    """A second address, for clients of Ollama; always plain HTTP."""
    access: Access = Access()
    limits: Limits = Limits()
    readiness: Readiness = Readiness()
    measuring: Measuring = Measuring()
    shutdown: Shutdown = Shutdown()
    crash_grace_s: Seconds = 0.0
    """How long model servers are kept for the next hotseat if this one is killed; 0: they end with it."""
    logging: Logging = Logging()
    activity: ActivityKept = ActivityKept()
    conversations: Conversations = Conversations()
    error_format: ErrorFormat = ErrorFormat.AUTO
    metrics: bool = True
    fleet: Fleet | None = None
    """None: not in a fleet."""
    include_aliases_in_list: bool = False
    ignore_paths: tuple[str, ...] = (r"\.(js|json|css|png|gif|jpg|jpeg|ico|txt)$",)
    """After /upstream/{model}: matching paths never start a model."""
    inference_paths: tuple[str, ...] = ()
    """Further paths of model servers that the role `inference` may use."""
    is_strict: bool = False
    """Are the paths of other programs' APIs forwarded like any others?"""
    yield_to: tuple[str, ...] = ()
    """Names of programs with precedence: while one runs, no model does."""
    trust_pages: bool = False
    """May web pages of model servers do what hotseat's may?"""
