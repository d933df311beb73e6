"""What a simulated server has computed of its clients' conversations, in its memory and on disk.

A client has one conversation with a model. It is lost with the process of the model, unless it was saved and restored:
then the next prompt of the client computes again what is missing. As with a real server, as many conversations are
saved as the server has slots, the longest first, and everything ends with its allowance.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

from hotseat.scheduling.conversation_state import USUAL_TRANSFER_RATE
from hotseat.scheduling.events import PromptProcessed, Transfer

if TYPE_CHECKING:
    from collections.abc import Iterable

    from hotseat.identifiers import Bytes, Instant, Seconds
    from hotseat.scheduling.commands import Allowance
    from hotseat.simulation.results import Request
    from hotseat.simulation.trace import Model

TOKEN_SIZE: Bytes = 64 << 10
"""Of a model of usual size; the scheduler's own figure is lower, so that it tries."""
USUAL_RATE = USUAL_TRANSFER_RATE / TOKEN_SIZE
"""Tokens per second to save or restore, if none were recorded."""


@dataclass(frozen=True, slots=True)
class Conversation:
    client: str
    tokens: int
    used_at: Instant
    """On disk: when it was saved."""
    is_restored: bool = False
    """It was read from disk, and no prompt has continued it since."""


class Outcome(NamedTuple):
    """Of one attempt to save or restore conversations."""

    done: tuple[Conversation, ...]
    transfers: tuple[Transfer, ...]
    took_s: Seconds
    unfinished: Transfer | None


class Conversations:
    """Of one model, over all its processes."""

    def __init__(self, model: Model) -> None:
        self._model = model
        self._in_memory: dict[str, Conversation] = {}
        self._on_disk: dict[str, Conversation] = {}
        self._earlier: set[str] = set()
        """Clients of its earlier processes."""

    def begin(self, request: Request) -> PromptProcessed | None:
        """What the server will report about the prompt; None if nothing is known about the request or the model."""
        prompt, rate = request.prompt, self._model.compute_rate
        if prompt is None or rate is None:
            return None
        missing = self._missing(request.client, prompt.known)
        request.recomputed_s = missing / rate
        computed = prompt.new + missing
        return PromptProcessed(request.ticket, computed, prompt.known - missing, computed / rate, prompt.answer)

    def end(self, request: Request, now: Instant) -> None:
        """The request is answered: its process has the conversation now."""
        if request.prompt is not None:
            self._in_memory[request.client] = Conversation(request.client, request.prompt.tokens, now)

    def gone(self) -> None:
        """Its process is."""
        self._earlier.update(self._in_memory)
        self._in_memory.clear()

    def _missing(self, client: str, known: int) -> int:
        """How many of the tokens that an earlier process had computed this one has not.

        A request that does not follow a new process found what it found when it was recorded.
        """
        held = self._in_memory.get(client)
        if client not in self._earlier or (held and not held.is_restored):
            return 0
        return max(0, known - held.tokens) if held else known

    def save(self, allowance: Allowance, now: Instant) -> Outcome:
        """What was restored and not used since is still on disk."""
        latest = sorted(self._in_memory.values(), key=lambda each: each.used_at, reverse=True)[: self._model.slots]
        used = sorted((each for each in latest if not each.is_restored), key=lambda each: each.tokens, reverse=True)
        outcome = attempt(used, self._model.save_rate or USUAL_RATE, allowance)
        self._on_disk.update({each.client: Conversation(each.client, each.tokens, now) for each in outcome.done})
        return outcome

    def restore(self, allowance: Allowance) -> Outcome:
        """The last saved first; of those saved together, the longest."""
        saved = sorted(self._on_disk.values(), key=lambda each: (each.used_at, each.tokens), reverse=True)
        outcome = attempt(saved[: self._model.slots], self._model.restore_rate or USUAL_RATE, allowance)
        self._in_memory = {
            each.client: Conversation(each.client, each.tokens, each.used_at, is_restored=True) for each in outcome.done
        }
        return outcome


def attempt(conversations: Iterable[Conversation], rate: float, allowance: Allowance) -> Outcome:
    """Save or restore these, at so many tokens per second, as far as they are worth it and there is time."""
    done: list[Conversation] = []
    transfers: list[Transfer] = []
    spent_s = 0.0
    for each in conversations:
        left_s, took_s = allowance.within_s - spent_s, each.tokens / rate
        if each.tokens < allowance.least_tokens or each.tokens * allowance.token_s > left_s:
            continue
        if took_s > left_s:
            late = Transfer(each.tokens, 0, left_s)
            return Outcome(tuple(done), tuple(transfers), allowance.within_s, late)
        spent_s += took_s
        done.append(each)
        transfers.append(Transfer(each.tokens, each.tokens * TOKEN_SIZE, took_s))
    return Outcome(tuple(done), tuple(transfers), spent_s, None)
