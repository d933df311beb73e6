"""Whatever clients send for however long, no container of the relay grows beyond its bound."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

import pytest
from tests.support.containers import sizes
from tests.support.depth import by_depth
from tests.support.host_headers import SECRET, passed_on
from tests.support.relay_rig import HELLO, get, post

from hotseat.fleet import proofs
from hotseat.identifiers import HostName
from hotseat.relay.access import origin, wrong_keys
from hotseat.relay.http import head_cache
from hotseat.scheduling import model_stats
from hotseat.settings import Access, ApiKey, Fleet, Settings

if TYPE_CHECKING:
    from tests.relay.conftest import OpenRig
    from tests.support.relay_rig import RelayRig

pytestmark = [pytest.mark.uncounted, pytest.mark.longer]

ROUNDS = by_depth(250, 5_000)
REMEMBERED = 100
"""Instead of the usual bounds, which the test would reach later."""
USUAL = 64
"""No other container has more: there are a handful of models, of connections and of keys."""
BOUNDS = {
    "Memory._known": REMEMBERED,
    "OriginCheck._welcome": REMEMBERED,
    "MinuteCounts._counts": REMEMBERED + 1,
    "RefusalLines._written": REMEMBERED,
    "ProofChecker._seen": REMEMBERED,
    "ProofChecker._seen_before": REMEMBERED,
    "ProofChecker._refused_before": proofs.MOST_SIGNERS,
    "StatsOfModels._last_visits": model_stats.KEPT_CLIENTS,
}
BODY = b'{"model":"alpha"}'
SETTINGS = Settings(
    access=Access(
        api_keys=(ApiKey("secret"),), trusted_proxies=("127.0.0.1",), client_header="X-Forwarded-For"
    ),
    fleet=Fleet(("nats://x",), HostName("here"), secrets=(SECRET,)),
)  # fmt: skip


async def test_no_container_grows_beyond_its_bound(open_rig: OpenRig, monkeypatch: pytest.MonkeyPatch) -> None:
    """Heads of requests and responses, addresses, keys, names of hosts and proofs that never come again."""
    for place, name in (
        (head_cache, "MOST_KNOWN"),
        (origin, "MOST_REMEMBERED"),
        (wrong_keys, "MOST_ADDRESSES"),
        (proofs, "MOST_SEEN"),
    ):
        monkeypatch.setattr(place, name, REMEMBERED)
    rig = await open_rig(settings=SETTINGS)
    largest: Counter[str] = Counter()
    for number in range(ROUNDS):
        await ask(rig, number)
        if number % 10 == 0:
            largest |= sizes([rig.relay])

    assert {name: size for name, size in largest.items() if size > BOUNDS.get(name, USUAL)} == {}
    assert [name for name in BOUNDS if largest[name] <= USUAL] == [], "the workload does not fill these"


async def ask(rig: RelayRig, number: int) -> None:
    sender = f"X-Forwarded-For: 10.0.{number // 250}.{number % 250}"
    new_head = post(BODY, "x-api-key: secret", sender).replace(b"Host: box", b"Host: box%d" % number)
    await rig.exchange(new_head, HELLO.replace(b"Content-Type", b"X-Number: %d\r\nContent-Type" % number))
    await rig.exchange(post(BODY, *passed_on(client=f"client-{number}")))
    guessed = await rig.refusal(get("/v1/models", f"x-api-key: guess-{number}", sender))

    assert guessed.status in (401, 429)
