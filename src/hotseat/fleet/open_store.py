"""Opens the store that the configuration names, and closes it."""

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
"""For NATS to answer at the start; after that we begin without it."""


@asynccontextmanager
async def open_store(fleet: Fleet) -> AsyncIterator[Store]:
    """A store on NATS, connected if NATS is there; StoreError with a sentence where it can never be opened."""
    try:
        from hotseat.fleet.jetstream.store import JetStream  # whoever has no fleet needs no nats-py
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
