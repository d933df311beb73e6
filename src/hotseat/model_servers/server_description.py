"""What a hotseat process says about a ready server, so that another one can take it over."""

from __future__ import annotations

import hashlib
import json
from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING, Any

from hotseat.identifiers import Address, DeviceName, HostName, LaunchId, ModelName, Place

if TYPE_CHECKING:
    from hotseat.catalog.spec import ModelSpec
    from hotseat.identifiers import Bytes

VERSION = 1
WITH_KEY = 2
"""Not understood by a hotseat that would send the server no key: it starts the model anew."""
USUAL_WEIGHT: Bytes = 4 << 30
"""Of a model whose files are not on its command line, or that a hotseat has started which did not say it."""


@dataclass(frozen=True, slots=True)
class KeptIn:
    """Where a server saves its conversations."""

    folder: str
    basis: str
    """What they depend on, as it was when the server was started."""
    weight: Bytes = USUAL_WEIGHT
    """Of the model's files."""


@dataclass(frozen=True, slots=True)
class ServerDescription:
    """A server that was ready when this was said. It contains no secret but the key that hotseat made."""

    model: ModelName
    launch: LaunchId
    """Of the process that said it; the next one numbers its launches anew."""
    pid: int
    address: Address
    port: int | None
    """What its `${PORT}` is; None: its command has none."""
    check_endpoint: str | None
    fingerprint: str
    """Of the settings that it was started with."""
    gpus: tuple[Place, ...]
    ready_at: float
    """Wall-clock time."""
    server: str = ""
    """Its `Server` header."""
    sleep: str | None = None
    """The name of its sleep level; None: it is awake."""
    slots: int | None = None
    context: int | None = None
    conversations: KeptIn | None = None
    """None: it saves none."""
    listener: int | None = None
    api_key: str = field(default="", repr=False)
    """See `Upstream.api_key`. Only the guard has it, which runs as the user of the server."""

    def as_json(self) -> dict[str, Any]:
        return {"version": WITH_KEY if self.api_key else VERSION, **asdict(self)}


def read_description(said: object, pid: int) -> ServerDescription | None:
    """What another process said about `pid`; None: it says nothing that can be understood."""
    try:
        return _read(said, pid)
    except (LookupError, TypeError, ValueError):
        return None


def _read(said: Any, pid: int) -> ServerDescription | None:
    if said["version"] not in (VERSION, WITH_KEY):
        return None
    return ServerDescription(
        model=ModelName(str(said["model"])),
        launch=LaunchId(int(said["launch"])),
        pid=pid,
        address=Address(*said["address"]),
        port=said["port"],
        check_endpoint=said["check_endpoint"],
        fingerprint=str(said["fingerprint"]),
        gpus=tuple(Place(HostName(host), DeviceName(device)) for host, device in said["gpus"]),
        ready_at=float(said["ready_at"]),
        server=str(said["server"]),
        sleep=said["sleep"],
        slots=said["slots"],
        context=said["context"],
        conversations=_kept_in(said.get("conversations")),
        listener=said.get("listener"),
        api_key=str(said.get("api_key", "")),
    )


def _kept_in(said: Any) -> KeptIn | None:
    return KeptIn(str(said["folder"]), str(said["basis"]), int(said.get("weight", USUAL_WEIGHT))) if said else None


def fingerprint_of(spec: ModelSpec) -> str:
    """PURE: of all settings that a running server depends on: the same in every process with the same settings."""
    recipe, choice = spec.recipe, spec.gpus
    settings = {
        "argv": recipe.argv,
        "proxy": recipe.proxy,
        "stop": recipe.stop,
        "env": sorted((name, _digest(value)) for name, value in recipe.env),
        "check_endpoint": recipe.check_endpoint,
        "gpus": choice and [choice.count, choice.among],
    }
    return _digest(json.dumps(settings, sort_keys=True, separators=(",", ":")))


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()
