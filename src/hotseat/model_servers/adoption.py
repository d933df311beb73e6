"""Servers that another hotseat process has handed over: what it has said about each, and which of them can be used."""

from __future__ import annotations

import asyncio
import hashlib
import json
from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple

from hotseat.identifiers import Address, DeviceName, HostName, LaunchId, ModelName, Place
from hotseat.model_servers.api_key import authorization
from hotseat.model_servers.descendants import is_running
from hotseat.model_servers.output import KEPT, Pipe
from hotseat.model_servers.ports import listener_of
from hotseat.model_servers.readiness import Readiness
from hotseat.threads import in_thread

if TYPE_CHECKING:
    from collections.abc import Iterable

    from hotseat.catalog.spec import ModelSpec
    from hotseat.identifiers import Bytes, Seconds
    from hotseat.model_servers.guarded_process import GuardedProcess, TakenProcess
    from hotseat.model_servers.output import Output

VERSION = 1
WITH_KEY = 2
"""Not understood by a hotseat that would send the server no key: it starts the model anew."""
USUAL_WEIGHT: Bytes = 4 << 30
"""Of a model whose files are not on its command line, or that a hotseat has started which did not say it."""
HEALTH_S: Seconds = 5.0
"""For a server that was left alone to answer its health check."""


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
        return _understood(said, pid)
    except (LookupError, TypeError, ValueError):
        return None


def _understood(said: Any, pid: int) -> ServerDescription | None:
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


class TakenServers:
    def __init__(self, taken: Iterable[TakenProcess] = (), *, were_orphaned: bool = False) -> None:
        self._left = [TakenServer.of(each) for each in taken]
        self._were_orphaned = were_orphaned
        self._ending: list[GuardedProcess] = []

    async def usable(self) -> list[ServerDescription]:
        """The ready servers among them, as far as can be seen from outside."""
        are_usable = await asyncio.gather(*map(self._is_usable, self._left))
        pairs = zip(self._left, are_usable, strict=True)
        return [each.description for each, is_usable in pairs if each.description and is_usable]

    def claim(self, description: ServerDescription) -> TakenServer:
        """LookupError: there is none, or it was claimed before."""
        for each in self._left:
            if each.description == description:
                self._left.remove(each)
                return each
        raise LookupError(f"no server of {description.model} was handed over with pid {description.pid}")

    def end_unclaimed(self) -> None:
        """Begin to end them."""
        unclaimed, self._left = [each.process for each in self._left], []
        for process in unclaimed:
            process.ask_guard_to_end()
        self._ending += unclaimed

    def ended(self) -> asyncio.Future[Any]:
        """Done when no process of those is left."""
        return asyncio.gather(*(asyncio.shield(process.gone) for process in self._ending))

    async def _is_usable(self, server: TakenServer) -> bool:
        process, description = server.process, server.description
        if description is None or process.gone.done() or not is_running(process.pid, process.started):
            return False
        _, is_ours = await in_thread(
            "look for the listener", listener_of, description.address, process.pid, process.marker
        )
        if not is_ours:
            return False
        return description.sleep is not None or not self._were_orphaned or await is_healthy(description)


class TakenServer(NamedTuple):
    process: GuardedProcess
    output: HeldOutput
    description: ServerDescription | None
    """None: it was not ready, or is no server."""

    @classmethod
    def of(cls, taken: TakenProcess) -> TakenServer:
        """Its output is read from now on, so that it is not blocked."""
        process, output = taken.process, HeldOutput()
        pipe = Pipe(output, taken.output)
        process.gone.add_done_callback(lambda _: pipe.close())
        process.when_taken(pipe.leave)
        return cls(process, output, read_description(taken.description, process.pid))


class HeldOutput:
    """The newest output of a server, until somebody knows what must be concealed in it."""

    def __init__(self) -> None:
        self._kept = b""
        self._output: Output | None = None

    def feed(self, data: bytes) -> None:
        if self._output:
            self._output.feed(data)
        else:
            self._kept = (self._kept + data)[-KEPT:]

    def end_line(self) -> None:
        if self._output:
            self._output.end_line()

    def lead_to(self, output: Output) -> None:
        """From now on; what was kept goes there first."""
        self._output = output
        if self._kept:
            output.feed(self._kept)


async def is_healthy(description: ServerDescription) -> bool:
    """A server whose hotseat was killed may have failed since: nobody has watched it."""
    lines = authorization(description.api_key)
    try:
        async with asyncio.timeout(HEALTH_S):
            await Readiness(description.address, description.check_endpoint, lines=lines).reached()
    except TimeoutError:
        return False
    return True
