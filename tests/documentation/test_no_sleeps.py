"""Tests wait for facts: a pause is either too short on a busy machine or too long on an idle one."""

from __future__ import annotations

import re

from tests.support.llama import REPOSITORY

PAUSES = {
    "support/waiting.py": "between two looks at a fact",
    "support/virtual_time.py": "on a virtual clock, so no time passes",
    "support/streaming_server.py": "a server that streams slowly",
    "support/vllm_stand_in.py": "a server whose load, sleep and wake take time",
    "relay/upstream/test_exiting.py": "a server that holds a connection",
    "telemetry/test_shortages.py": "blocks the event loop, which is what is measured",
    "fleet/test_store_engines.py": "a lease ends by the store's clock",
}
"""Files under tests that may sleep, and why."""
PAUSE = re.compile(r"\b(?:asyncio|time)\.sleep\((?!0\))")


def test_only_known_files_sleep() -> None:
    """Every other test waits for a fact with a deadline; `asyncio.sleep(0)` only lets other tasks run."""
    tests = REPOSITORY / "tests"
    paths = [path for path in tests.rglob("*.py") if "conformance" not in path.parts]
    sleeping = {str(path.relative_to(tests)) for path in paths if PAUSE.search(path.read_text())}

    assert sleeping == set(PAUSES)
