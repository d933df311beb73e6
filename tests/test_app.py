"""The start of the program."""

from __future__ import annotations

import subprocess
import sys

UNUSED = (
    "nats",
    "rich",
    "hotseat.fleet.node",
    "hotseat.api.openapi",
    "hotseat.config.descriptions",
    "hotseat.simulation",
)


def test_a_start_imports_only_what_it_needs() -> None:
    """A host without a fleet does not import nats, nor what only some commands and pages need."""
    program = f"import sys, hotseat.cli.commands, hotseat.app; sys.exit(str(sys.modules.keys() & {set(UNUSED)}))"

    started = subprocess.run([sys.executable, "-c", program], stderr=subprocess.PIPE, text=True, timeout=200)

    assert started.stderr == "set()\n"
