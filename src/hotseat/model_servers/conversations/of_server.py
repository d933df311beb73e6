"""The conversations of one server: its slots are saved before it stops, and restored after it has started."""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING

from hotseat.model_servers.conversations.attempt import Attempt
from hotseat.model_servers.conversations.fingerprint import fingerprint
from hotseat.model_servers.conversations.handover import SlotsRecord
from hotseat.model_servers.conversations.part import NotKept
from hotseat.model_servers.conversations.saved_file import Origin
from hotseat.model_servers.conversations.slots_api import Refused, SlotsApi
from hotseat.threads import in_thread

if TYPE_CHECKING:
    from hotseat.identifiers import Address, Instant, LaunchId
    from hotseat.model_servers.conversations.attempt import Outcome
    from hotseat.model_servers.conversations.files import SavedFiles
    from hotseat.model_servers.conversations.saved_file import SavedFile
    from hotseat.model_servers.conversations.saves_in_progress import SavesInProgress
    from hotseat.model_servers.conversations.slots_api import Slot
    from hotseat.model_servers.conversations.start import ServerStart
    from hotseat.scheduling.commands import Allowance


class ServerConversations:
    def __init__(self, files: SavedFiles, saves: SavesInProgress, start: ServerStart, folder: str) -> None:
        self._files, self._saves, self._start = files, saves, start
        self.folder = folder
        self._restored: set[Slot] = set()
        """Slots as they were after their conversation was restored: if one still is so, its file is still right."""
        self._files_of_slots: dict[int, SavedFile] = {}
        """What was restored into each of them."""

    @property
    def start(self) -> ServerStart:
        return self._start

    def record(self, launch: LaunchId) -> SlotsRecord:
        """For the next hotseat process, which adopts the server."""
        files = {slot: file.name for slot, file in self._files_of_slots.items()}
        return SlotsRecord(launch, tuple(self._restored), files)

    def remember(self, record: SlotsRecord) -> None:
        """What an earlier process has restored into the slots of this server."""
        self._restored = {*record.restored}
        known = {slot: self._files.named(name) for slot, name in record.files.items()}
        self._files_of_slots = {slot: file for slot, file in known.items() if file}

    # Save

    async def save(self, address: Address, allowance: Allowance) -> Outcome:
        """Never raises; the time of `allowance` is a hard limit."""
        attempt = Attempt(allowance)
        async with attempt.limited():
            await self._save(SlotsApi(address, self._start.key), attempt, self._files.now)
        return attempt.outcome

    async def _save(self, api: SlotsApi, attempt: Attempt, used_at: Instant) -> None:
        origin = await self._origin(api)
        used = [slot for slot in await api.slots() if slot.tokens and slot not in self._restored]
        for slot in sorted(used, key=lambda slot: slot.tokens, reverse=True):
            if slot.is_processing:
                attempt.note(f"slot {slot.id} is in use")
            elif attempt.is_worthwhile(slot.tokens):
                await self._save_slot(api, attempt, origin, slot, used_at)

    async def _save_slot(self, api: SlotsApi, attempt: Attempt, origin: Origin, slot: Slot, used_at: Instant) -> None:
        """A conversation that does not fit may be followed by a shorter one that does."""
        try:
            part = await self._saves.begin(origin, slot.tokens)
        except NotKept as problem:
            return attempt.note(str(problem))
        try:
            async with attempt.transfer(slot.tokens) as size:
                moved, earlier = await api.save(slot.id, part.name), self._files_of_slots.get(slot.id)
                size.append((await self._saves.finish(part, moved, used_at, earlier)).size)
        finally:
            self._saves.abandon(part)

    # Restore

    async def restore(self, address: Address, allowance: Allowance) -> Outcome:
        """Never raises; the time of `allowance` is a hard limit."""
        attempt = Attempt(allowance)
        async with attempt.limited():
            await self._restore(SlotsApi(address, self._start.key), attempt)
        return attempt.outcome

    async def _restore(self, api: SlotsApi, attempt: Attempt) -> None:
        origin = await self._origin(api)
        self._files.drop_outdated(origin)
        unused = [slot.id for slot in await api.slots() if not (slot.tokens or slot.is_processing)]
        for file in self._files.usable(origin):
            if not unused:
                break
            if attempt.is_worthwhile(file.tokens) and self._is_whole(file, attempt):
                await self._restore_file(api, attempt, file, unused.pop(0))
        self._restored = {slot for slot in await api.slots() if slot.tokens}

    def _is_whole(self, file: SavedFile, attempt: Attempt) -> bool:
        is_whole = self._files.is_whole(file)
        if not is_whole:
            attempt.note("a file does not have the size with which it was saved and is removed")
            self._files.drop([file])
        return is_whole

    async def _restore_file(self, api: SlotsApi, attempt: Attempt, file: SavedFile, slot: int) -> None:
        """What the server refuses is erased from the slot, and its file is removed, unless it was not the first: then
        the context of all slots together may only be full.
        """
        try:
            async with attempt.transfer(file.tokens) as size:
                moved = await api.restore(slot, file.name)
                size.append(file.size)
                if moved.tokens != file.tokens:
                    self._files.drop([file])
                    raise Refused(f"{moved.tokens} tokens were restored instead of {file.tokens}")
                self._files_of_slots[slot] = file
        except Refused:
            if not attempt.outcome.done:
                self._files.drop([file])
            with suppress(Refused):
                await api.erase(slot)
            raise

    async def _origin(self, api: SlotsApi) -> Origin:
        build = await api.build()
        if not await in_thread("look at files", self._start.is_unchanged):
            raise NotKept("the files of its command have changed since it was started")
        return Origin(self._start.model, fingerprint(self._start.basis, build), self._start.weight)
