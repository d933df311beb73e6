"""The start of the program."""

from __future__ import annotations

import subprocess
import sys

import pytest

LATER = ("fastapi", "uvicorn", "hotseat.api")
"""The management API is imported after the program listens."""
UNUSED = (
    "http.client",
    "huggingface_hub",
    "nats",
    "rich",
    "hotseat.cli.client",
    "hotseat.estimates.architecture",
    "hotseat.estimates.estimate",
    "hotseat.estimates.gguf",
    "hotseat.estimates.safetensors",
    "hotseat.fleet.node",
    "hotseat.config.json_schema",
    "hotseat.simulation",
)
OF_COMMANDS = ("asyncio", "pydantic", "yaml", "ssl", "hotseat.app", "hotseat.config")
"""What no command needs that only shows text or asks a running hotseat."""


@pytest.mark.parametrize(
    ("imported", "absent"),
    [
        ("hotseat.cli.commands, hotseat.cli.setup_commands, hotseat.app", (*LATER, *UNUSED)),
        ("hotseat.startup.management", ("nats", "rich", "hotseat.api.openapi")),
        ("hotseat.cli.commands", ("http.client", *OF_COMMANDS)),
    ],
)
def test_a_start_imports_only_what_it_needs(imported: str, absent: tuple[str, ...]) -> None:
    """A host listens before it imports its API, and imports neither nats without a fleet nor what only some commands
    need. `hotseat --help` needs no server."""
    program = f"import sys, {imported}; sys.exit(str(sys.modules.keys() & {set(absent)}))"

    started = subprocess.run([sys.executable, "-c", program], stderr=subprocess.PIPE, text=True, timeout=200)

    assert started.stderr == "set()\n"
