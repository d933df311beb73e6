"""The keys under a model's `sleep`."""

from __future__ import annotations

from typing import Annotated, Literal, TypeAlias

from pydantic import Field

from hotseat.config.schema_base import AsMapping, AsText, Form, TextOrMapping, Words
from hotseat.config.units import Duration, Size, Switch

ServerName: TypeAlias = Literal["vllm", "llama-server"]
Memory: TypeAlias = Annotated[Annotated[Size, AsText] | Annotated[dict[str, Size], AsMapping], TextOrMapping]


class LevelForm(Form):
    """One way to sleep."""

    suspend: Words = ""
    """What puts the server to sleep: requests to it such as `POST /sleep`, or commands; one, or a list in order."""
    resume: Words = ""
    """What wakes it, written in the same way."""
    memory: Memory | None = None
    """Memory it keeps while it sleeps: a size of RAM, or a mapping of sizes per device."""
    keeps_weights: Switch | None = None
    """Whether what it has on devices is in RAM meanwhile; counts where memory says nothing and nothing was measured."""


class SleepForm(LevelForm):
    """How the server sleeps instead of being stopped."""

    server: ServerName | None = None
    """A server whose ways are known; what it does not say is filled in."""
    levels: dict[str, LevelForm] = Field(default_factory=dict)
    """Several ways to sleep, by name, the preferred one first until more is known of them."""
    check: str = ""
    """Path that answers JSON with is_sleeping, asked until it says what was wished."""
    timeout: Duration = 120.0
    """Time to fall asleep, and time to wake."""
    ttl: Duration = 0.0
    """Time asleep after which the server is stopped; 0 is no limit."""


SleepOrServer: TypeAlias = Annotated[Annotated[ServerName, AsText] | Annotated[SleepForm, AsMapping], TextOrMapping]
