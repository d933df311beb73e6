"""Carries out the commands about servers that are up: sleep, wake-up and conversations. Counterpart: server_tasks.py.

An exception also becomes an event: the sleep, wake-up, save or restore has failed.
"""

from __future__ import annotations

import logging
from functools import partial
from typing import TYPE_CHECKING, TypeVar

from hotseat.scheduling.events import ConversationsRestored, ConversationsSaved, SleepFailed, WakeFailed

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Sequence

    from hotseat.dispatch.launcher import Launcher
    from hotseat.identifiers import Instant, ModelName
    from hotseat.scheduling.commands import PutToSleep, RestoreConversations, SaveConversations, WakeUp
    from hotseat.scheduling.events import Event, Transfer
    from hotseat.tasks import Tasks

log = logging.getLogger(__name__)

C = TypeVar("C", bound="PutToSleep | WakeUp | SaveConversations | RestoreConversations")
T = TypeVar("T")

TRANSFERRED = "conversations %s model=%s count=%d tokens=%d size_mb=%.1f took_s=%.2f"


class ReadyServerTasks:
    def __init__(
        self,
        launcher: Launcher,
        tell: Callable[[Event], None],
        clock: Callable[[], Instant],
        pause_after_requests: Callable[[ModelName], Awaitable[None]],
        tasks: Tasks,
    ) -> None:
        """`pause_after_requests` waits until the last request of a model is long enough ago."""
        self._launcher, self._tell, self._clock = launcher, tell, clock
        self._pause_after_requests, self._tasks = pause_after_requests, tasks

    def put_to_sleep(self, command: PutToSleep) -> None:
        level, reason = command.level.name, command.reason
        log.info("putting model server to sleep model=%s level=%s reason=%r", command.model, level, reason)
        self._tasks.start(self._put_to_sleep(command), f"put {command.model} to sleep")

    def wake_up(self, command: WakeUp) -> None:
        log.info("waking model server model=%s level=%s reason=%r", command.model, command.level.name, command.reason)
        self._tasks.start(self._wake_up(command), f"wake {command.model}")

    def save_conversations(self, command: SaveConversations) -> None:
        self._tasks.start(self._save_conversations(command), f"save conversations of {command.model}")

    def restore_conversations(self, command: RestoreConversations) -> None:
        self._tasks.start(self._restore_conversations(command), f"restore conversations of {command.model}")

    async def _put_to_sleep(self, command: PutToSleep) -> None:
        await self._pause_after_requests(command.model)
        began, failed = self._clock(), partial(SleepFailed, command.model, command.launch)
        outcome = await attempted("sleep", self._launcher.put_to_sleep, command, failed)
        if isinstance(outcome, SleepFailed):
            log.warning("model server failed to sleep and is stopped model=%s error=%r", command.model, outcome.error)
        elif outcome:
            log.info("model server asleep model=%s took_s=%.2f", command.model, self._clock() - began)
        if outcome:
            self._tell(outcome)

    async def _wake_up(self, command: WakeUp) -> None:
        began, failed = self._clock(), partial(WakeFailed, command.model, command.launch)
        outcome = await attempted("wake", self._launcher.wake_up, command, failed)
        if isinstance(outcome, WakeFailed):
            log.warning("model server failed to wake and is restarted model=%s error=%r", command.model, outcome.error)
        elif outcome:
            log.info("model server awake model=%s took_s=%.2f", command.model, self._clock() - began)
        if outcome:
            self._tell(outcome)

    async def _save_conversations(self, command: SaveConversations) -> None:
        await self._pause_after_requests(command.model)
        failed = partial(ConversationsSaved, command.model, command.launch, ())
        if outcome := await attempted("save", self._launcher.save_conversations, command, failed):
            log_transfers("saved", outcome.model, outcome.saved, outcome.problem)
            self._tell(outcome)

    async def _restore_conversations(self, command: RestoreConversations) -> None:
        failed = partial(ConversationsRestored, command.model, command.launch, ())
        if outcome := await attempted("restore", self._launcher.restore_conversations, command, failed):
            log_transfers("restored", outcome.model, outcome.restored, outcome.problem)
            self._tell(outcome)


async def attempted(action: str, do: Callable[[C], Awaitable[T]], command: C, failed: Callable[[str], T]) -> T:
    try:
        return await do(command)
    except Exception as problem:
        log.exception("internal error action=%s model=%s", action, command.model)
        return failed(named(problem))


def log_transfers(done: str, model: ModelName, transfers: Sequence[Transfer], problem: str) -> None:
    if not (transfers or problem):
        return
    tokens, size_mb = sum(each.tokens for each in transfers), sum(each.size for each in transfers) / 1e6
    took_s = sum(each.took_s for each in transfers)
    form = f"{TRANSFERRED} problem=%r" if problem else TRANSFERRED
    log.info(form, done, model, len(transfers), tokens, size_mb, took_s, *([problem] if problem else []))


def named(problem: Exception) -> str:
    return f"{type(problem).__name__}: {problem}"
