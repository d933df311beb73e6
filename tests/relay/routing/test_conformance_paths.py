"""The conformance kit holds with `passthrough: strict` too: its requests are routed in the same way.

CI runs the kit in the usual mode; `just conformance --setting passthrough=strict` runs it in the other one.
"""

from __future__ import annotations

import ast
from pathlib import Path

import pytest
from tests.support.fake_launcher import catalog, spec

from hotseat.errors import HotseatError
from hotseat.relay.routing.model_name import Destination, find_destination
from hotseat.relay.routing.paths import IN_CONTRACT, ONLY_LISTED, OWN_PAGES, PathTable

KIT = Path(__file__).parents[2] / "conformance"
METHODS = (b"GET", b"HEAD", b"POST", b"PUT", b"PATCH", b"DELETE", b"OPTIONS")
CATALOG = catalog(spec("alpha"), spec("beta"), spec("locked"), spec("dressed"))
STRICT = PathTable(is_strict=True)


def targets() -> list[str]:
    """Every path in the code of the kit, with a model's name for each gap."""
    trees = [ast.parse(file.read_text()) for file in (KIT / "rig.py", *KIT.glob("checks_*.py"))]
    texts = [filled(node) for tree in trees for node in ast.walk(tree)]
    return sorted({text for text in texts if text.startswith("/") and " " not in text})


def filled(node: ast.AST) -> str:
    match node:
        case ast.Constant(value=str(text)):
            return text
        case ast.JoinedStr(values=values):
            return "".join(filled(value) if isinstance(value, ast.Constant) else "alpha" for value in values)
    return ""


def outcome(method: bytes, target: str, paths: PathTable) -> Destination | str:
    try:
        return find_destination(method, target.encode(), CATALOG, paths)
    except HotseatError as error:
        return error.message


def test_the_kit_has_paths() -> None:
    """They are found in its code."""
    assert {"/v1/chat/completions", "/slots", "/running", "/upstream/alpha/load", "/swagger"} <= set(targets())


@pytest.mark.parametrize("method", METHODS)
def test_the_requests_of_the_kit_are_routed_alike_in_both_modes(method: bytes) -> None:
    """No path of the contract's kit is one that hotseat answers for another program, or in addition."""
    paths = set(targets()) - {path.decode() for path in OWN_PAGES - IN_CONTRACT}
    strict = {target: outcome(method, target, STRICT) for target in paths}

    assert {target: outcome(method, target, ONLY_LISTED) for target in paths} == strict
