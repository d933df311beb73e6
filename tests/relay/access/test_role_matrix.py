"""Roles, paths, methods and ways to name a model, checked against the configuration and the documentation."""

from __future__ import annotations

from dataclasses import replace

import pytest
from tests.support.depth import by_depth
from tests.support.recording_server import Received
from tests.support.role_judge import problem
from tests.support.role_matrix import DEEP, QUICK, SITUATIONS, run
from tests.support.role_oracle import Oracle
from tests.support.role_reading import Request
from tests.support.role_requests import Plan, bearer
from tests.support.role_world import PEERS_SECRET, Seen, config

CHAT = Request(
    "POST", "/v1/chat/completions", (*bearer("key-of-inference-alpha"), ("Content-Type", "application/json"))
)
ALPHA, BETA, FAR = (replace(CHAT, body=b'{"model":"%b"}' % name) for name in (b"alpha", b"beta", b"far"))
SENT = Request("POST", "/v1/chat/completions")
AT_ALPHA = Request("GET", "/hotseat/config", bearer("key-of-admin"), host="alpha.localhost")


@pytest.mark.longer
@pytest.mark.uncounted
def test_nobody_gets_more_than_the_documentation_says() -> None:
    """Every request is refused or reaches a server that it may reach, which gets no secret."""
    results = run(Plan(seed=0, each=by_depth(QUICK, deep=DEEP)))
    print(results)

    assert results.leaks == []
    assert results.requests > 5_000
    assert len(results.methods) > 3
    assert min(results.answers[status] for status in (200, 400, 401, 403, 404, 415)) > 5


def oracle() -> Oracle:
    return Oracle(config(1, 2), SITUATIONS[0].profile, SITUATIONS[0].running)


def received(server: str, **said: object) -> tuple[Received]:
    return (Received(server, replace(SENT, **said)),)  # type: ignore[arg-type]


LEAKS = {
    "another model": (BETA, Seen(200, received("beta"), (), ())),
    "another server": (ALPHA, Seen(200, received("beta"), (), ())),
    "another path": (ALPHA, Seen(200, received("alpha", target="/slots"), (), ())),
    "another method": (ALPHA, Seen(200, received("alpha", method="DELETE"), (), ())),
    "refused, and forwarded all the same": (BETA, Seen(403, received("beta"), (), ())),
    "refused, and loaded all the same": (BETA, Seen(403, (), ("beta",), ())),
    "refused without need": (ALPHA, Seen(403, (), (), ())),
    "stopped by the way": (ALPHA, Seen(200, received("alpha"), (), ("beta",))),
    "our own API at a model server's address": (AT_ALPHA, Seen(200, received("hotseat", method="GET"), (), ())),
    "another server at a model server's address": (AT_ALPHA, Seen(200, received("beta", method="GET"), (), ())),
    "our key": (ALPHA, Seen(200, received("alpha", fields=bearer("key-of-inference-alpha")), (), ())),
    "a peer's key": (ALPHA, Seen(200, received("alpha", fields=bearer(PEERS_SECRET)), (), ())),
    "a peer's other model": (
        replace(FAR, fields=(*bearer("key-of-admin"), CHAT.fields[1])),
        Seen(200, received("farm", fields=bearer(PEERS_SECRET), body=b'{"model":"near"}'), (), ()),
    ),
}


@pytest.mark.parametrize("leak", LEAKS)
def test_a_leak_would_be_seen(leak: str) -> None:
    """The oracle reports each prepared leak."""
    request, seen = LEAKS[leak]

    assert problem(oracle(), request, seen)


def test_what_may_be_is_no_leak() -> None:
    """The oracle accepts an allowed request and a refused one."""
    assert problem(oracle(), ALPHA, Seen(200, received("alpha", body=ALPHA.body), ("alpha",), ())) == ""
    assert problem(oracle(), BETA, Seen(403, (), (), ())) == ""
