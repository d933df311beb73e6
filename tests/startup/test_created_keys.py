"""Keys that are created while hotseat runs, as another process with the same state directory sees them."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest
from tests.support.fake_launcher import catalog, spec
from tests.support.waiting import come_true

from hotseat.activity.usage import Accounts
from hotseat.config.load import Loaded
from hotseat.config.reload import ActiveConfig
from hotseat.errors import KeyConflict, NotStored, Unauthorized, UnknownKey
from hotseat.settings import Access, ApiKey, Role, Settings
from hotseat.startup.created_keys import CreatedKeys
from hotseat.state.key_file import KeyFile
from hotseat.tasks import Tasks

if TYPE_CHECKING:
    from pathlib import Path

ANN, BOB = ApiKey("", Role.ADMIN, "ann"), ApiKey("", Role.INFERENCE, "bob")


class World:
    """One process: its keys, its accounts, and how often its relay was told."""

    def __init__(self, folder: Path, *configured: ApiKey) -> None:
        self.file = KeyFile(folder / "keys.json")
        settings = Settings(access=Access(api_keys=configured))
        self.active = ActiveConfig(Loaded(catalog(spec("qwen")), settings), self.file.read())
        self.accounts = Accounts()
        self.applied = 0
        self.keys = CreatedKeys(self.file, self.active, self.accounts, self.apply)
        self.apply()

    def apply(self) -> None:
        self.applied += 1
        self.accounts.open(self.active.settings.access.keys)

    def names(self) -> list[str]:
        return [account.name for account in self.accounts.all()]


async def test_a_change_is_stored_and_takes_effect(tmp_path: Path) -> None:
    """Each secret is random; the next process knows the same keys, and no file has the secret."""
    world = World(tmp_path)
    secrets = [await world.keys.create(ANN), await world.keys.create(BOB), await world.keys.rotate("ann")]
    await world.keys.revoke("bob")

    assert world.names() == World(tmp_path).names() == ["ann"]
    assert all(secret.startswith("hs-") and len(secret) == 46 for secret in secrets)
    assert len(set(secrets)) == 3
    assert not any(secret in world.file.path.read_text() for secret in secrets)


async def test_a_key_with_a_new_secret_keeps_its_account(tmp_path: Path) -> None:
    """Its usage goes on, and the digest is the new one."""
    world = World(tmp_path)
    await world.keys.create(ANN)
    [account] = world.accounts.all()
    digest = account.digest
    await world.keys.rotate("ann")

    assert world.accounts.all() == [account]
    assert account.digest != digest


async def test_changes_that_are_not_possible(tmp_path: Path) -> None:
    """The message says where the key is, or that there is none; nothing changes."""
    world = World(tmp_path, ApiKey("sesame", Role.ADMIN, "yaml"))
    await world.keys.create(ANN)
    before = world.applied

    with pytest.raises(KeyConflict, match="`hotseat keys rotate ann` gives it a new secret"):
        await world.keys.create(ANN)
    for change in (world.keys.rotate("yaml"), world.keys.revoke("yaml"), world.keys.create(ApiKey("", name="yaml"))):
        with pytest.raises(KeyConflict, match='"yaml" is in apiKeys of the configuration'):
            await change
    for change in (world.keys.rotate("eve"), world.keys.revoke("eve")):
        with pytest.raises(UnknownKey, match='no API key is called "eve"'):
            await change
    assert world.applied == before


async def test_the_last_administrator(tmp_path: Path) -> None:
    """It cannot be revoked: nobody could manage the server, or without any key everybody could."""
    world = World(tmp_path)
    await world.keys.create(ANN)
    await world.keys.create(replace(ANN, name="of-some-models", models=("qwen",)))
    with pytest.raises(KeyConflict, match="the last key with the role admin"):
        await world.keys.revoke("ann")
    await world.keys.create(replace(ANN, name="eve"))
    await world.keys.revoke("ann")

    assert world.names() == ["of-some-models", "eve"]


async def test_an_administrator_in_the_configuration(tmp_path: Path) -> None:
    """Then all created keys can be revoked."""
    world = World(tmp_path, ApiKey("sesame", Role.ADMIN, "yaml"))
    await world.keys.create(ANN)
    await world.keys.revoke("ann")

    assert world.names() == ["yaml"]


async def test_rights_that_are_lost_while_waiting(tmp_path: Path) -> None:
    """What the caller may do is checked when its turn has come, and nothing is changed."""
    world = World(tmp_path)
    await world.keys.create(ANN)
    await world.keys.create(replace(ANN, name="eve"))
    eve = world.accounts.all()[1]

    def check() -> None:
        if eve not in world.accounts.all():
            raise Unauthorized("revoked")

    revoked, refused = await asyncio.gather(
        world.keys.revoke("eve"), world.keys.revoke("ann", check), return_exceptions=True
    )

    assert revoked is None
    assert isinstance(refused, Unauthorized)
    assert world.names() == World(tmp_path).names() == ["ann"]


@pytest.mark.parametrize("emptied", [True, False], ids=["emptied", "removed"])
async def test_the_keys_in_the_file_are_lost_before_a_change(tmp_path: Path, emptied: bool) -> None:
    """The change would lose the keys that are valid, so it is refused."""
    world = World(tmp_path)
    await world.keys.create(ANN)
    if emptied:
        world.file.path.write_text('{"format": 1, "keys": []}')
    else:
        world.file.path.unlink()
    for change in (world.keys.create(BOB), world.keys.revoke("ann")):
        with pytest.raises(NotStored, match="has no keys any more"):
            await change

    assert world.names() == ["ann"]


async def test_a_file_that_cannot_be_written(tmp_path: Path) -> None:
    """The error says which file, and the keys stay as they are."""
    world = World(tmp_path)
    world.file.path.mkdir()

    with pytest.raises(NotStored, match=r"the API keys were not changed: .*keys\.json"):
        await world.keys.create(ANN)
    assert world.names() == []


async def test_another_process_changes_the_keys(tmp_path: Path) -> None:
    """This process uses them, although nobody told it: it may still serve clients of before a restart."""
    old, new, tasks = World(tmp_path), World(tmp_path), Tasks()
    tasks.start(old.keys.watch(), "watch")
    await new.keys.create(ANN)
    await new.keys.create(BOB)
    await come_true(lambda: old.names() == ["ann", "bob"])
    await new.keys.revoke("bob")
    await come_true(lambda: old.names() == ["ann"])
    await tasks.aclose()


@pytest.mark.parametrize("damage", ["{", None], ids=["broken", "gone"])
async def test_the_file_is_damaged_while_hotseat_runs(
    tmp_path: Path, damage: str | None, caplog: pytest.LogCaptureFixture
) -> None:
    """The keys that were read stay valid, because without keys everybody could do everything."""
    await World(tmp_path).keys.create(ANN)
    world, tasks = World(tmp_path), Tasks()
    tasks.start(world.keys.watch(), "watch")
    if damage is None:
        world.file.path.unlink()
    else:
        world.file.path.write_text(damage)
    await come_true(lambda: "the file of API keys cannot be read and the keys stay valid" in caplog.text)
    await tasks.aclose()

    assert world.names() == ["ann"]


async def test_the_caller_runs_as_the_same_user(tmp_path: Path) -> None:
    """An empty proof is none."""
    assert not World(tmp_path).keys.is_proven("")
