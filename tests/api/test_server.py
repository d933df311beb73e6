"""The management API on its socket."""

from __future__ import annotations

import socket

import pytest
from fastapi import FastAPI

from hotseat.api.app import served


async def test_an_api_that_cannot_be_served_ends_the_start() -> None:
    """Nobody waits for it: requests would wait for ever."""
    closed = socket.socket(socket.AF_UNIX)
    closed.close()

    with pytest.raises((OSError, ValueError)):
        async with served(FastAPI(), closed):
            pass
