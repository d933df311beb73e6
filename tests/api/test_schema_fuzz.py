"""Generated requests to the running program: every response is one that the OpenAPI document describes."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest
from tests.support.depth import by_depth
from tests.support.forked_hotseat import ForkedHotseat
from tests.support.stubs import stub

SCHEMATHESIS = Path(sys.executable).with_name("schemathesis")
CHECKS = (
    "not_a_server_error",
    "status_code_conformance",
    "content_type_conformance",
    "response_schema_conformance",
    "response_headers_conformance",
)
ENOUGH_S = 240
EXAMPLES = by_depth(2, deep=20)
"""Of each endpoint, beside those of the coverage phase."""
# Feeds do not end, who yields has no server to load for a while (503), what models answer is theirs to describe, and
# what hotseat refuses to do at all (501) counts as an error of the server.
FEEDS = r"^/hotseat/(events|traffic|logs|yield)$|^/(models/sse|api/events|logs/stream)"
REFUSED = r"^/api/(pull|create|copy|push|delete|blobs/)"
NOT_OURS = rf"{FEEDS}|{REFUSED}|^/v1/(chat/|completions|embeddings)|^/props$"


@pytest.mark.longer
@pytest.mark.timeout(ENOUGH_S + 30)
def test_the_program_answers_as_it_is_described(tmp_path: Path) -> None:
    """Every response to generated requests passes the checks against the OpenAPI document."""
    words = [
        "run",
        "--phases=coverage,fuzzing",
        f"--max-examples={EXAMPLES}",
        "--seed=1",
        "--no-shrink",
        "--request-timeout=10",
    ]
    words += [f"--checks={','.join(CHECKS)}", f"--exclude-path-regex={NOT_OURS}"]
    with ForkedHotseat({"models": {"alpha": stub("alpha"), "beta": stub("beta")}}, tmp_path) as rig:
        done = subprocess.run(
            [SCHEMATHESIS, *words, f"{rig.url}/hotseat/openapi.json"],
            cwd=tmp_path,
            capture_output=True,
            text=True,
            timeout=ENOUGH_S,
        )

    tested = re.search(r"(\d+) generated, (\d+) passed", done.stdout)
    assert done.returncode == 0, done.stdout
    assert tested
    assert int(tested[1]) > 200
