"""Opens and closes the store that the configuration names."""

from __future__ import annotations

from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

from hotseat.fleet.store import StoreError

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from hotseat.fleet.store import Store
    from hotseat.identifiers import Seconds
    from hotseat.settings import Fleet

FIRST_S: Seconds = 5.0
"""How long to wait for NATS at startup; after that we start without it."""


@asynccontextmanager
async def open_store(fleet: Fleet) -> AsyncIterator[Store]:
    """A store on NATS, connected if NATS is reachable; StoreError with an explanation if it can never open."""
    try:
        from hotseat.fleet.jetstream.store import JetStream  # only a fleet needs nats-py
    except ImportError as missing:
        said = f"a fleet needs the package {missing.name}. Install hotseat[fleet]."
        raise StoreError(said) from missing
    store = JetStream(fleet)
    try:
        store.open()
    except OSError as unfit:
        raise StoreError(f"the certificates of fleet.tls cannot be used: {unfit}") from unfit
    try:
        await store.until_connected(FIRST_S)
        yield store
    finally:
        await store.aclose()
