"""GET /hotseat/keys and the key metrics: they show what each key used, and never the key."""

from __future__ import annotations

from hashlib import sha256
from typing import TYPE_CHECKING

import pytest

from hotseat.activity.recent import Tokens
from hotseat.activity.usage import HELD
from hotseat.identifiers import ModelName
from hotseat.settings import ApiKey, Budget, Role
from hotseat.telemetry.pages import KeyPage

if TYPE_CHECKING:
    from tests.support.management import Management


async def test_keys_are_listed_with_what_they_used(rig: Management) -> None:
    """Each key is listed with its usage but not its secret; a limit that is not set is null."""
    ann, _ = rig.accounts.open([ApiKey("sesame", Role.INFERENCE, "ann", requests=Budget(9, 60.0)), ApiKey("other")])
    ann.enter("qwen")
    listed = (await rig.get("/hotseat/keys")).json()["keys"]

    assert listed[0] == {
        "name": "ann",
        "role": "inference",
        "source": "configuration",
        "models": [],
        "requests_limit": "9/min",
        "tokens_limit": None,
        "priority": "interactive",
        "concurrency_limit": None,
        "requests": 1,
        "refused": 0,
        "in_flight": 1,
        "device_seconds": 0.0,
    }
    assert listed[1]["name"].startswith("key ")
    assert "sesame" not in str(listed)


FOR_ALL_MODELS = [
    ("POST", "/hotseat/yield"),
    ("DELETE", "/hotseat/yield"),
    ("POST", "/hotseat/profiles/night"),
    ("DELETE", "/hotseat/profiles"),
    ("PUT", "/hotseat/fleet/hosts/b/cordon"),
    ("DELETE", "/hotseat/fleet/hosts/b/cordon"),
    ("PUT", "/hotseat/fleet/hosts/b/drain"),
    ("DELETE", "/hotseat/fleet/hosts/b/drain"),
    ("POST", "/hotseat/fleet/hosts/b/restart"),
]


@pytest.mark.parametrize(("method", "path"), FOR_ALL_MODELS)
async def test_what_acts_on_all_models_needs_a_key_for_all_models(rig: Management, method: str, path: str) -> None:
    """A key with a list of models gets 403 for actions that affect all models; one without a list does not."""
    rig.accounts.open([ApiKey("sesame", Role.OPERATE, models=("alpha",)), ApiKey("open", Role.OPERATE)])
    refused, allowed = [
        await rig.client.request(method, path, headers={HELD: sha256(key).hexdigest()}) for key in (b"sesame", b"open")
    ]

    assert (refused.status_code, refused.headers["X-Error-Code"]) == (403, "forbidden")
    assert "affects all models" in refused.json()["error"]
    assert allowed.status_code in (200, 404, 409)


async def test_metrics_have_one_label_per_configured_key(rig: Management) -> None:
    """Each configured key is one time series, and no secret is in the metrics."""
    rig.metrics_text.include(KeyPage(rig.accounts.all, rig.usage.by_key))
    ann, _ = rig.accounts.open([ApiKey("sesame", name="ann"), ApiKey("other")])
    ann.enter("qwen").ended(1)
    for key in ("ann", "a key that was removed"):
        rig.usage.count(ModelName("qwen"), key, Tokens(9, 3, None, cached=4), estimated=2)
    page = (await rig.get("/metrics")).text

    assert 'hotseat_key_requests_total{key="ann"} 1.0' in page
    assert page.count("hotseat_key_device_seconds_total{") == 2
    assert 'hotseat_key_tokens_total{key="ann",kind="prompt"} 9.0' in page
    assert 'hotseat_key_tokens_total{key="ann",kind="cached"} 4.0' in page
    assert 'hotseat_key_tokens_total{key="ann",kind="completion"} 3.0' in page
    assert 'hotseat_key_tokens_total{key="ann",kind="estimated"} 2.0' in page
    assert page.count("hotseat_key_tokens_total{") == 8
    assert "sesame" not in page
