"""A supervisor whose servers save their conversations: a stand-in with slots as the test says, and llama-server."""

from __future__ import annotations

import asyncio
import json
import shlex
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.request import Request, urlopen

from tests.support import llama
from tests.support.supervisor_rig import PYTHON, SupervisorRig

from hotseat.catalog.spec import LaunchRecipe, ModelSpec
from hotseat.identifiers import ModelName
from hotseat.scheduling.commands import Allowance, RestoreConversations, SaveConversations

if TYPE_CHECKING:
    from hotseat.model_servers.supervisor import Supervisor
    from hotseat.scheduling.events import ConversationsRestored, ConversationsSaved, UpstreamReady

BUDGET = 1 << 30
PATIENT = Allowance(within_s=60.0, least_tokens=10, token_s=0.0)
STAND_IN = str(Path(llama.REPOSITORY / "tests/support/slots_stand_in.py"))
ADDRESS = "http://127.0.0.1:${PORT}"
REASON = "the test says so"


def stand_in(*options: str, **known: Any) -> ModelSpec:
    """A model whose server has slots as the test says."""
    argv = (*PYTHON, STAND_IN, "--port", "${PORT}", *options)
    return spec_for(LaunchRecipe(argv, ADDRESS), **known)


def real(options: str = "", **known: Any) -> ModelSpec:
    """A model of the real llama-server."""
    return spec_for(LaunchRecipe(tuple(shlex.split(llama.command("alpha", "${PORT}", options))), ADDRESS), **known)


def spec_for(recipe: LaunchRecipe, **known: Any) -> ModelSpec:
    return ModelSpec(ModelName("qwen"), recipe, **{"keeps_conversations": True, **known})


class ConversationsRig(SupervisorRig):
    def __init__(self, supervisor: Supervisor, parent: Path) -> None:
        super().__init__(supervisor)
        self.parent = parent

    @property
    def files(self) -> list[Path]:
        """The saved conversations, and whatever else is there."""
        return sorted(path for path in self.parent.glob("*/*") if path.name != "lock")

    async def save(self, ready: UpstreamReady, allowance: Allowance = PATIENT) -> ConversationsSaved:
        saved = await self.supervisor.save_conversations(self.saving(ready, allowance))
        assert saved
        return saved

    async def restore(self, ready: UpstreamReady, allowance: Allowance = PATIENT) -> ConversationsRestored:
        restored = await self.supervisor.restore_conversations(self.restoring(ready, allowance))
        assert restored
        return restored

    def saving(self, ready: UpstreamReady, allowance: Allowance = PATIENT) -> SaveConversations:
        return SaveConversations(ready.model, ready.launch, allowance, REASON)

    def restoring(self, ready: UpstreamReady, allowance: Allowance = PATIENT) -> RestoreConversations:
        return RestoreConversations(ready.model, ready.launch, allowance, REASON)

    async def talked(self, spec: ModelSpec, *tokens: int, busy: tuple[int, ...] = ()) -> UpstreamReady:
        """A stand-in whose slots have conversations of so many tokens."""
        ready = await self.ready(spec)
        await talk(ready, *tokens, busy=busy)
        return ready

    async def saved_and_ended(self, spec: ModelSpec, *tokens: int) -> ConversationsSaved:
        ready = await self.talked(spec, *tokens)
        saved = await self.save(ready)
        await self.end(ready)
        return saved


async def talk(ready: UpstreamReady, *tokens: int, busy: tuple[int, ...] = ()) -> None:
    await ask(ready, "/talk", {"tokens": tokens, "busy": busy})


async def ask(ready: UpstreamReady, path: str, body: object = None, key: str = "") -> Any:
    """What the server itself answers."""
    data = None if body is None else json.dumps(body).encode()
    headers = {"Content-Type": "application/json", "Authorization": f"Bearer {key}"}
    request = Request(f"{ready.upstream.address}{path}", data, headers)
    return json.loads(await asyncio.to_thread(lambda: urlopen(request, timeout=60).read()))
