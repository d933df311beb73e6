"""Creates, rotates and revokes API keys while hotseat runs. The file has the change before it takes effect."""

from __future__ import annotations

import asyncio
import logging
import os
import secrets
from dataclasses import replace
from hashlib import sha256
from typing import TYPE_CHECKING

from hotseat.activity.usage import digest_of
from hotseat.config.watch import Watch
from hotseat.errors import KeyConflict, NotStored, UnknownKey
from hotseat.settings import Role
from hotseat.state.key_file import KEYS, KeyFile, UnreadableKeys
from hotseat.state.local_proof import is_proven
from hotseat.state.state_file import state_directory

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from typing import TypeAlias

    from hotseat.activity.usage import Accounts
    from hotseat.config.reload import ActiveConfig
    from hotseat.identifiers import Seconds
    from hotseat.relay.server import Relay
    from hotseat.settings import ApiKey
    from hotseat.startup.shared import Shared

    Step: TypeAlias = Callable[[tuple[ApiKey, ...]], tuple[ApiKey, ...]]
    Check: TypeAlias = Callable[[], None]

log = logging.getLogger(__name__)

LOOK_S: Seconds = 0.5
SECRET_BYTES = 32
PREFIX = "hs-"
"""By which people and secret scanners recognise a key of hotseat."""


def allowed() -> None:
    """For callers that cannot lose their rights."""


class CreatedKeys:
    def __init__(self, file: KeyFile, active: ActiveConfig, accounts: Accounts, apply: Callable[[], None]) -> None:
        """`apply` makes the relay use the keys of `active`, and ends the requests of those that are gone."""
        self._file, self._active, self._accounts, self._apply_policy = file, active, accounts, apply
        self._watch = Watch([file.path])
        self._changing = asyncio.Lock()

    def names(self) -> frozenset[str]:
        return frozenset(key.name for key in self._active.created_keys)

    def is_proven(self, proof: str) -> bool:
        """Does the caller run as the user who runs hotseat?"""
        return is_proven(self._file.path.parent, proof)

    async def create(self, key: ApiKey, check: Check = allowed) -> str:
        """The secret, which is known to nobody else."""
        secret, hashed = new_secret()
        await self._change(key.name, lambda keys: with_new(keys, replace(key, hashed=hashed)), check)
        log.info("API key created name=%s role=%s", key.name, key.role.value)
        return secret

    async def rotate(self, name: str, check: Check = allowed) -> str:
        """The new secret. The old one is invalid from now on; requests in progress continue."""
        secret, hashed = new_secret()
        await self._change(name, lambda keys: with_other_hash(keys, name, hashed), check)
        log.info("API key rotated name=%s", name)
        return secret

    async def revoke(self, name: str, check: Check = allowed) -> None:
        """Returns when its requests in progress have ended."""
        await self._change(name, lambda keys: self._with_an_administrator(without(keys, name)), check)
        log.info("API key revoked name=%s", name)

    async def watch(self) -> None:
        """Notice what another process has changed: the one that replaces this one, or one with the same directory."""
        await self._watch.follow(self.read_again, "watch the API keys", LOOK_S, is_due=True)

    async def read_again(self) -> None:
        async with self._changing:
            await self._read_again()

    async def _read_again(self) -> None:
        try:
            keys = self._not_lost(await asyncio.to_thread(self._file.read))
        except UnreadableKeys as problem:  # without its keys everybody could do everything
            log.error("the file of API keys cannot be read and the keys stay valid reason=%r", str(problem))
        else:
            self._use(keys)

    def _check_not_configured(self, name: str) -> None:
        if any(key.name == name for key in self._active.settings.access.api_keys):
            raise KeyConflict(f'the API key "{name}" is in apiKeys of the configuration; change it there, and reload')

    def _not_lost(self, keys: tuple[ApiKey, ...]) -> tuple[ApiKey, ...]:
        """The last key cannot be revoked, so whoever has emptied or removed the file was not a command."""
        if not keys and self._active.created_keys:
            raise UnreadableKeys(f"{self._file.path} has no keys any more. Restore it, or restart without its keys.")
        return keys

    def _with_an_administrator(self, keys: tuple[ApiKey, ...]) -> tuple[ApiKey, ...]:
        """Nobody could manage the server otherwise, or everybody could."""
        access = self._active.settings.access
        if access.sign_in is None and not any(map(is_administrator, (*access.api_keys, *keys))):
            raise KeyConflict("this is the last key with the role admin and no list of models; create another one")
        return keys

    async def _change(self, name: str, step: Step, check: Check) -> None:
        """`check` raises if the caller may not do this any more: it may have lost its rights while it waited."""
        async with self._changing:
            check()
            self._check_not_configured(name)
            try:
                keys = await asyncio.to_thread(self._file.change, lambda keys: step(self._not_lost(keys)))
            except (OSError, UnreadableKeys) as problem:
                raise NotStored(f"the API keys were not changed: {self._file.path}: {problem}") from None
            self._use(keys)

    def _use(self, keys: tuple[ApiKey, ...]) -> None:
        before, self._active.created_keys = self._active.created_keys, keys
        if keys == before:
            return
        for old, new in rotated(before, keys):
            self._accounts.replace_digest(digest_of(old), digest_of(new))
        self._apply_policy()


def open_created_keys(shared: Shared, relay: Relay) -> CreatedKeys:
    def apply() -> None:
        relay.change_policy(shared.policy())

    return CreatedKeys(KeyFile(state_directory(os.environ) / KEYS), shared.active, shared.accounts, apply)


def new_secret() -> tuple[str, str]:
    """A secret and its hash."""
    secret = PREFIX + secrets.token_urlsafe(SECRET_BYTES)
    return secret, sha256(secret.encode()).hexdigest()


# PURE: changes of the list of keys


def with_new(keys: tuple[ApiKey, ...], key: ApiKey) -> tuple[ApiKey, ...]:
    if any(other.name == key.name for other in keys):
        raise KeyConflict(f'the API key "{key.name}" exists; `hotseat keys rotate {key.name}` gives it a new secret')
    return (*keys, key)


def with_other_hash(keys: tuple[ApiKey, ...], name: str, hashed: str) -> tuple[ApiKey, ...]:
    check_exists(keys, name)
    return tuple(replace(key, hashed=hashed) if key.name == name else key for key in keys)


def without(keys: tuple[ApiKey, ...], name: str) -> tuple[ApiKey, ...]:
    check_exists(keys, name)
    return tuple(key for key in keys if key.name != name)


def is_administrator(key: ApiKey) -> bool:
    return key.role is Role.ADMIN and not key.models


def check_exists(keys: tuple[ApiKey, ...], name: str) -> None:
    if all(key.name != name for key in keys):
        raise UnknownKey(f'no API key is called "{name}"; `hotseat keys list` shows them')


def rotated(before: tuple[ApiKey, ...], after: tuple[ApiKey, ...]) -> Iterator[tuple[ApiKey, ApiKey]]:
    by_name = {key.name: key for key in after}
    for key in before:
        if (now := by_name.get(key.name)) is not None and now.hashed != key.hashed:
            yield key, now
