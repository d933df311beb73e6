"""/hotseat/keys and the key metrics: what each key used, never the key; who may change keys, and what is answered."""

from __future__ import annotations

import asyncio
from hashlib import sha256
from typing import TYPE_CHECKING, Any

import pytest

from hotseat.activity.recent import Tokens
from hotseat.activity.usage import HELD, SIGNED_IN
from hotseat.identifiers import ModelName
from hotseat.settings import ApiKey, Budget, Role
from hotseat.state.local_proof import written_proof
from hotseat.telemetry.pages import KeyPage

if TYPE_CHECKING:
    import httpx2
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


ROOT = ApiKey("sesame", Role.ADMIN, "root")
OF_ROOT = {HELD: sha256(b"sesame").hexdigest()}


async def created(
    rig: Management, headers: dict[str, str] | None = None, name: str = "ann", **body: Any
) -> httpx2.Response:
    return await rig.client.post(f"/hotseat/keys/{name}", json=body, headers=OF_ROOT if headers is None else headers)


def secrets(rig: Management) -> set[bytes]:
    return {account.digest for account in rig.accounts.all()}


async def test_an_administrator_creates_a_key(rig: Management) -> None:
    """The answer has the secret, the list has the rights, and an alias counts as its model."""
    rig.configure_keys(ROOT)
    rights: dict[str, Any] = {"role": "operate", "models": ["first"], "concurrency_limit": 4, "priority": "batch"}
    answer = await created(rig, **rights, requests="60/min", tokens="2M/day")
    listed = (await rig.get("/hotseat/keys")).json()["keys"]

    assert answer.status_code == 200, answer.text
    assert answer.headers["Cache-Control"] == "no-store"
    assert sha256(answer.json()["secret"].encode()).digest() in secrets(rig)
    assert [(key["name"], key["source"]) for key in listed] == [("root", "configuration"), ("ann", "created")]
    assert {name: listed[1][name] for name in rights} == {**rights, "models": ["alpha"]}
    assert (listed[1]["requests_limit"], listed[1]["tokens_limit"]) == ("60/min", "2000000/day")
    assert answer.json()["secret"] not in str(listed)


async def test_a_key_gets_a_new_secret(rig: Management) -> None:
    """The old one is unknown from now on."""
    rig.configure_keys(ROOT)
    old = (await created(rig)).json()["secret"]
    new = (await rig.client.post("/hotseat/keys/ann/rotate", headers=OF_ROOT)).json()["secret"]

    assert sha256(new.encode()).digest() in secrets(rig)
    assert sha256(old.encode()).digest() not in secrets(rig)


async def test_a_key_is_revoked(rig: Management) -> None:
    """It is not listed any more, and revoking it again says that there is none."""
    rig.configure_keys(ROOT)
    await created(rig)
    answers = [await rig.client.request("DELETE", "/hotseat/keys/ann", headers=OF_ROOT) for _ in range(2)]

    assert [answer.status_code for answer in answers] == [200, 404]
    assert [key["name"] for key in (await rig.get("/hotseat/keys")).json()["keys"]] == ["root"]


async def test_nobody_locks_themselves_out(rig: Management) -> None:
    """A key cannot revoke itself, so that one with the role admin always remains."""
    rig.configure_keys(ROOT)
    secret = (await created(rig, role="admin")).json()["secret"]
    own = {HELD: sha256(secret.encode()).hexdigest()}
    refused = await rig.client.request("DELETE", "/hotseat/keys/ann", headers=own)

    assert (refused.status_code, refused.headers["X-Error-Code"]) == (409, "key_conflict")
    assert "cannot revoke itself" in refused.json()["error"]


async def test_two_administrators_revoke_each_other(rig: Management) -> None:
    """The first one wins; the other one is no administrator any more when its turn comes."""
    rig.configure_keys(ROOT)
    names = ("ann", "bob")
    held = {name: sha256((await created(rig, name=name, role="admin")).json()["secret"].encode()) for name in names}
    answers = await asyncio.gather(
        rig.client.request("DELETE", "/hotseat/keys/bob", headers={HELD: held["ann"].hexdigest()}),
        rig.client.request("DELETE", "/hotseat/keys/ann", headers={HELD: held["bob"].hexdigest()}),
    )

    assert sorted(answer.status_code for answer in answers) == [200, 401]
    assert len((await rig.get("/hotseat/keys")).json()["keys"]) == 2


@pytest.mark.parametrize(
    "body",
    [
        {"name": "a b"},
        {"name": "a%2Fb"},
        {"name": "%0A"},
        {"name": "x" * 65},
        {"role": "root"},
        {"requests": "0/min"},
        {"concurrency_limit": -1},
        {"models": "alpha"},
        {"surplus": 1},
    ],
)
async def test_what_no_key_can_be(rig: Management, body: dict[str, Any]) -> None:
    """It is refused, and nothing is stored."""
    rig.configure_keys(ROOT)

    assert (await created(rig, **body)).status_code in (400, 404)
    assert not (rig.folder / "keys.json").exists()


async def test_a_model_that_does_not_exist(rig: Management) -> None:
    """A key for it would be of no use, so the mistake is reported."""
    rig.configure_keys(ROOT)
    refused = await created(rig, models=["alpah"])

    assert (refused.status_code, refused.headers["X-Error-Code"]) == (404, "model_not_found")


async def test_a_key_for_some_models_manages_no_keys(rig: Management) -> None:
    """Otherwise it could give itself the others."""
    rig.configure_keys(ApiKey("sesame", Role.ADMIN, "root", models=("alpha",)))
    answers = [
        await created(rig),
        await rig.client.post("/hotseat/keys/ann/rotate", headers=OF_ROOT),
        await rig.client.request("DELETE", "/hotseat/keys/ann", headers=OF_ROOT),
    ]

    assert [answer.status_code for answer in answers] == [403, 403, 403]


# Without keys


async def test_without_keys_nobody_creates_one_by_a_request(rig: Management) -> None:
    """A web page or another user of the machine could otherwise take the server over."""
    answers = [
        await created(rig, headers={}, role="admin"),
        await created(rig, headers={}, role="admin", proof="guessed"),
        await rig.client.post("/hotseat/keys/ann/rotate"),
        await rig.delete("/hotseat/keys/ann"),
    ]

    assert [answer.status_code for answer in answers] == [403, 403, 403, 403]
    assert "only the user who runs hotseat can create the first one" in answers[0].json()["error"]
    assert rig.accounts.all() == []


async def test_the_user_who_runs_hotseat_creates_the_first_key(rig: Management) -> None:
    """The answer says that every client needs a key from now on."""
    with written_proof(rig.folder) as proof:
        answer = await created(rig, headers={}, role="admin", proof=proof)

    assert answer.status_code == 200, answer.text
    assert "from now on every client needs a key" in answer.json()["message"]
    assert [account.name for account in rig.accounts.all()] == ["ann"]


@pytest.mark.parametrize("rights", [{"role": "operate"}, {"role": "admin", "models": ["alpha"]}])
async def test_the_first_key_must_be_able_to_create_others(rig: Management, rights: dict[str, Any]) -> None:
    """Otherwise nobody could manage keys."""
    with written_proof(rig.folder) as proof:
        refused = await created(rig, headers={}, proof=proof, **rights)

    assert refused.status_code == 409
    assert "the first key must have the role admin" in refused.json()["error"]
    assert rig.accounts.all() == []


async def test_somebody_who_has_signed_in_at_a_proxy(rig: Management) -> None:
    """The relay has checked the role: no proof is needed, and no key is their own."""
    rig.configure_keys(ROOT)
    signed_in = {SIGNED_IN: "j%F6rg"}
    answers = [
        await created(rig, headers=signed_in),
        await rig.client.post("/hotseat/keys/ann/rotate", headers=signed_in),
        await rig.client.request("DELETE", "/hotseat/keys/ann", headers=signed_in),
        await rig.client.post("/hotseat/restart", headers=signed_in),
    ]

    assert [answer.status_code for answer in answers] == [200, 200, 200, 200]
    assert "every client needs a key" not in answers[0].json()["message"]
