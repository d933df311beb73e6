"""How hotseat itself behaves, as configured (what may run is in the catalog). Frozen and validated."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from enum import Enum
from typing import TYPE_CHECKING, Literal, NamedTuple

from msgspec import Struct

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


USER = "user:"
"""Precedes the names of users who have signed in at a proxy wherever keys are named too; no key's name begins so."""


class Role(Enum):
    """What a key may do; each role includes the ones before it."""

    INFERENCE = "inference"
    OPERATE = "operate"
    ADMIN = "admin"


WINDOWS = {"s": 1.0, "min": 60.0, "hour": 3600.0, "day": 86400.0}
"""What a budget may be per."""
WORDS = {"s": "second", "min": "minute"}
BUDGET = rf"([0-9]+(?:\.[0-9]+)?)\s*([kKM]?)\s*/\s*({'|'.join(WINDOWS)})"
"""Regular expression: how a budget is written."""
MULTIPLES = {"": 1, "k": 1000, "m": 1_000_000}
LARGEST_BUDGET = 1 << 60


class Budget(Struct, frozen=True):
    """So much in each window of the clock."""

    most: int
    window_s: Seconds

    @classmethod
    def of(cls, written: str) -> Budget:
        """`100/min` or `2M/day`; ValueError for anything else."""
        found = re.fullmatch(BUDGET, written.strip())
        if not found:
            raise ValueError(f'write how many per {", ".join(WINDOWS)}, such as 100/min or 2M/day, not "{written}"')
        most = float(found[1]) * MULTIPLES[found[2].lower()]
        if not 1 <= most <= LARGEST_BUDGET:
            raise ValueError(f'must be at least 1 and at most {LARGEST_BUDGET}, not "{written}"')
        return cls(int(most), WINDOWS[found[3]])

    def __str__(self) -> str:
        return f"{self.most}/{self._window()}"

    def words(self, kind: str) -> str:
        """`5 requests per minute`."""
        window = self._window()
        return f"{self.most} {kind.removesuffix('s') if self.most == 1 else kind} per {WORDS.get(window, window)}"

    def _window(self) -> str:
        return next(name for name, length in WINDOWS.items() if length == self.window_s)


BATCH = "batch"
PRIORITIES = ("interactive", BATCH)


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
    requests: Budget | None = None
    """Requests to models; None: no limit."""
    tokens: Budget | None = None
    """Of prompts and answers; None: no limit."""
    concurrency: int | None = None
    """Concurrent requests to models; None: no limit."""
    is_batch: bool = False
    """Requests of other keys are served before its own."""

    @property
    def priority(self) -> Literal["interactive", "batch"]:
        return "batch" if self.is_batch else "interactive"


class SignIn(Struct, frozen=True):
    """Headers in which a trusted proxy says who has signed in there."""

    user_header: str
    role_header: str = ""
    """Empty: every user has the role inference."""


class Access(Struct, frozen=True):
    """Who may connect."""

    allow_open: bool = False
    allowed_hosts: tuple[str, ...] = ()
    allowed_origins: tuple[str, ...] = ()
    trusted_proxies: tuple[str, ...] = ()
    client_header: str = ""
    sign_in: SignIn | None = None
    """None: users do not sign in at a proxy."""
    api_keys: tuple[ApiKey, ...] = ()
    """Of the configuration."""
    created_keys: tuple[ApiKey, ...] = ()
    """Of the commands `hotseat keys`: only their hashes are known."""

    @property
    def keys(self) -> tuple[ApiKey, ...]:
        """All that authenticate clients."""
        return self.api_keys + self.created_keys

    @property
    def is_restricted(self) -> bool:
        """Must everybody say who they are?"""
        return bool(self.keys) or self.sign_in is not None


class Limits(Struct, frozen=True):
    body: Bytes = GiB
    json_body: Bytes = 16 * MiB
    uploads: Bytes = 0
    """Request bodies on disk, all clients together; 0: four times `body`."""
    idle_timeout_s: Seconds = 60.0
    # The file does not set the rest.
    header: Bytes = 32 * KiB
    header_timeout_s: Seconds = 10.0
    connections: int = 10_000
    per_address: int = 5_000
    """Of one address, so that no single one can lock out the others."""

    @property
    def most_uploads(self) -> Bytes:
        """One body of the largest allowed size always fits if nothing else is uploaded."""
        return max(self.uploads or 4 * self.body, self.body)


class Readiness(Struct, frozen=True):
    """When `/hotseat/ready` answers no."""

    oldest_wait_s: Seconds = 900.0
    """Longer than any sane load: a request that waits this long waits in vain."""


class Conversations(Struct, frozen=True):
    """What model servers have computed of conversations, on disk while they do not run."""

    disk: Bytes = 0
    """All of them together; 0: none are kept."""


class LogFormat(Enum):
    AUTO = "auto"
    """Text on a terminal, else JSON."""
    TEXT = "text"
    JSON = "json"


class Measuring(Struct, frozen=True):
    """How memory is measured, if devices have budgets."""

    is_on: bool = True
    """False: declared or estimated figures count, and other programs are ignored."""
    every_s: Seconds = 5.0


class Shutdown(Struct, frozen=True):
    """How long a shutdown may take after SIGTERM."""

    notice_s: Seconds = 3.0
    """Serving continues while a load balancer notices that `/hotseat/ready` answers no."""
    drain_s: Seconds = 10.0
    """No new requests; those in flight may finish."""


class Logging(Struct, frozen=True):
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
    credentials: str = ""
    """File with a JWT and its key, as written by `nsc`."""
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


class Settings(Struct, frozen=True):
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
    activity_keep_s: Seconds = 0.0
    """How long finished requests are kept on disk; 0: none are."""
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
