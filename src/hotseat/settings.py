"""How the house itself behaves, as the configuration says; what may run is the catalog's. Frozen and validated."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import Enum
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping

    from hotseat.identifiers import Bytes, HostName, Seconds

KiB, MiB, GiB = 1 << 10, 1 << 20, 1 << 30


class ErrorFormat(Enum):
    AUTO = "auto"
    TEXT = "text"
    OPENAI = "openai"


class Role(Enum):
    """What a key may do; each role may also do what those before it may."""

    INFERENCE = "inference"
    OPERATE = "operate"
    ADMIN = "admin"


@dataclass(frozen=True, slots=True)
class ApiKey:
    secret: str = field(repr=False)
    """Empty where only its hash is known."""
    role: Role = Role.INFERENCE
    name: str = ""
    """Of its holder, for people; may be shown."""
    hashed: str = field(default="", repr=False)
    """SHA-256 of a secret that we are not told, in hexadecimal digits."""
    models: tuple[str, ...] = ()
    """Names that it may ask for; none: all."""
    per_minute: int | None = None
    """Requests to models; None: as many as it likes."""
    concurrency: int | None = None
    """Requests to models that may be under way at a time; None: as many as it likes."""


@dataclass(frozen=True, slots=True)
class Access:
    """Who may speak to us."""

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
    """Of bodies on disk, all clients together; 0: four times `body`."""
    connections: int = 10_000
    per_address: int = 5_000
    """Of these, how many one address may have, so that nobody can lock out all others alone."""
    header_timeout_s: Seconds = 10.0
    body_timeout_s: Seconds = 30.0
    idle_timeout_s: Seconds = 60.0

    @property
    def most_uploads(self) -> Bytes:
        """The largest body that is allowed always finds room where nobody else uploads."""
        return max(self.uploads or 4 * self.body, self.body)


@dataclass(frozen=True, slots=True)
class Readiness:
    """When `/hotseat/ready` says no."""

    oldest_wait_s: Seconds = 900.0
    """Longer than any sane load: whoever waits this long waits for something that does not come."""
    longest_unload_s: Seconds = 60.0
    """A server that is there so long after it was killed, in the middle of a driver call perhaps, keeps its room."""


@dataclass(frozen=True, slots=True)
class ActivityKept:
    """What of finished requests is kept on disk."""

    keep_s: Seconds = 0.0
    """0: nothing."""
    most: int = 1_000_000


class LogFormat(Enum):
    AUTO = "auto"
    """Text where a person reads it, JSON elsewhere."""
    TEXT = "text"
    JSON = "json"


@dataclass(frozen=True, slots=True)
class Measuring:
    """How memory is looked at, where devices have budgets."""

    is_on: bool = True
    """False: models count as declared or estimated, and nobody asks what others use."""
    every_s: Seconds = 5.0


@dataclass(frozen=True, slots=True)
class Shutdown:
    """How much time there is between SIGTERM and the end."""

    notice_s: Seconds = 3.0
    """Business goes on while a load balancer learns that `/hotseat/ready` says no."""
    drain_s: Seconds = 10.0
    """Nobody new comes in, and what is under way may end."""


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
    """How NATS knows us. Files are named here and read when a connection is made."""

    user: str = ""
    password: str = field(default="", repr=False)
    token: str = field(default="", repr=False)
    credentials: str = ""
    """A file with a JWT and its key, as `nsc` writes it."""
    nkey: str = ""
    """A file with a seed."""
    ca: str = ""
    """A file with the authorities that are believed; empty: the machine's."""
    cert: str = ""
    key: str = ""
    """Files with our own certificate and its key, where NATS asks for one."""


@dataclass(frozen=True, slots=True)
class Fleet:
    """The hosts that we belong to."""

    nats: tuple[str, ...]
    name: HostName
    """Ours: no two hosts have the same."""
    address: str = ""
    """How others reach us: `http://host:port`; empty: as we listen."""
    labels: Mapping[str, str] = field(default_factory=dict)
    secrets: tuple[str, ...] = field(default=(), repr=False)
    """By which hosts know each other, the same on all of them; two while one takes the place of the other."""
    login: NatsLogin = NatsLogin()


@dataclass(frozen=True, slots=True)
class Settings:
    listen: tuple[str, int] = ("127.0.0.1", 8080)
    access: Access = Access()
    limits: Limits = Limits()
    readiness: Readiness = Readiness()
    measuring: Measuring = Measuring()
    shutdown: Shutdown = Shutdown()
    logging: Logging = Logging()
    activity: ActivityKept = ActivityKept()
    error_format: ErrorFormat = ErrorFormat.AUTO
    metrics: bool = True
    fleet: Fleet | None = None
    """None: this host is alone."""
    include_aliases_in_list: bool = False
    ignore_paths: tuple[str, ...] = (r"\.(js|json|css|png|gif|jpg|jpeg|ico|txt)$",)
    """After /upstream/{model}: paths that match never start a model."""
    inference_paths: tuple[str, ...] = ()
    """Further paths of model servers that the role `inference` may use."""
    yield_to: tuple[str, ...] = ()
    """Names of programs that have precedence: while one runs, no model does."""
    trust_pages: bool = False
    """May web pages of model servers do what our own may?"""
