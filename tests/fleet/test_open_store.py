"""A store is opened from the configuration; NATS' client is imported only then."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

import pytest
from tests.support.fleets import fleet_at
from tests.support.nats import nats_servers
from tests.support.nats_jwt import operator_mode
from tests.support.waiting import PATIENCE_S, come_true

from hotseat.fleet.open_store import open_store
from hotseat.fleet.store import Bucket, StoreError
from hotseat.identifiers import HostName
from hotseat.settings import Fleet, NatsLogin

if TYPE_CHECKING:
    from pathlib import Path

NOWHERE = Fleet(("nats://127.0.0.1:1",), HostName("test"))


async def test_opening_and_closing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The store is usable within the context and disconnected after it."""
    monkeypatch.setattr("hotseat.fleet.open_store.FIRST_S", PATIENCE_S)
    async with nats_servers(tmp_path) as (server,):
        async with open_store(fleet_at(server)) as store:
            await store.put(Bucket.ORDERS, "gpu1", b"{}")

        assert not store.is_connected


async def test_a_certificate_that_is_not_there_is_refused_at_once(tmp_path: Path) -> None:
    """A missing CA file is an error that names fleet.tls."""
    fleet = Fleet(("tls://localhost:1",), HostName("test"), login=NatsLogin(ca=str(tmp_path / "nowhere.pem")))

    with pytest.raises(StoreError, match=r"fleet\.tls"):
        async with open_store(fleet):
            pass


@pytest.mark.parametrize("file", ["nowhere", "odd"])
async def test_a_login_that_cannot_be_used_is_logged(
    file: str, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, tmp_path: Path
) -> None:
    """With an unusable login file, the store opens disconnected and the reason is logged."""
    monkeypatch.setattr("hotseat.fleet.open_store.FIRST_S", 0.5)
    (tmp_path / "odd").write_text("no seed\n" * 3)
    login = NatsLogin(credentials=str(tmp_path / file))
    async with nats_servers(tmp_path, more=operator_mode().config) as (server,):
        fleet = Fleet((server.url,), HostName("test"), login=login)
        async with open_store(fleet) as store:
            await come_true(lambda: "NATS error" in caplog.text)

            assert not store.is_connected


async def test_without_the_package_a_sentence_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without the nats package, the error names the extra to install."""
    for name in [name for name in sys.modules if name.startswith("hotseat.fleet.jetstream")]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "nats", None)

    with pytest.raises(StoreError, match=r"Install hotseat\[fleet\]"):
        async with open_store(NOWHERE):
            pass
