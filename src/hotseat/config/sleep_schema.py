"""The keys under a model's `sleep`."""

from typing import Annotated, Literal, TypeAlias

from hotseat.config.schema_base import AsMapping, AsText, Form, TextOrMapping, Words
from hotseat.config.units import Duration, Size

ServerName: TypeAlias = Literal["vllm", "llama-server"]
Memory: TypeAlias = Annotated[Annotated[Size, AsText] | Annotated[dict[str, Size], AsMapping], TextOrMapping]


class SleepForm(Form):
    """How the server sleeps instead of being stopped."""

    suspend: Words = ""
    """What puts the server to sleep: requests to it such as `POST /sleep`, or commands; one, or a list in order."""
    resume: Words = ""
    """What wakes the server, in the same format."""
    memory: Memory | None = None
    """Memory the server keeps while asleep: a size of RAM, or a mapping of sizes per device."""
    server: ServerName | None = None
    """A supported server; provides defaults for the other keys."""
    levels: tuple[Literal[1, 2], ...] = ()
    """Levels of vLLM, in order of preference until measurements exist. Default: 1."""
    timeout: Duration = 120.0
    """Time limit for falling asleep and for waking."""
    ttl: Duration = 0.0
    """Time asleep after which the server is stopped; 0: no limit."""


SleepOrServer: TypeAlias = Annotated[Annotated[ServerName, AsText] | Annotated[SleepForm, AsMapping], TextOrMapping]
