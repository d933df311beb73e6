"""Our own keys: who holds one, what it opens, which header carried it."""

from __future__ import annotations

from base64 import b64encode
from hashlib import sha256
from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hotseat.accounts import Accounts
from hotseat.errors import ClientError, Forbidden, Unauthorized
from hotseat.relay.keys import UNTOUCHED, Keys, Verdict
from hotseat.settings import ApiKey, Role

if TYPE_CHECKING:
    from collections.abc import Callable

KEYS = Keys(
    Accounts().open((ApiKey("chat", Role.INFERENCE), ApiKey("run", Role.OPERATE), ApiKey("schlüssel", Role.ADMIN)))
)
SECRETS = {Role.INFERENCE: b"chat", Role.OPERATE: b"run", Role.ADMIN: "schlüssel".encode()}

Credentials = tuple[bytes | None, bytes | None]


def bearer(secret: bytes) -> Credentials:
    return b"Bearer " + secret, None


def lower_bearer(secret: bytes) -> Credentials:
    return b"bearer   " + secret + b" ", None


def basic(secret: bytes) -> Credentials:
    return b"Basic " + b64encode(b"anybody:" + secret), None


def x_api_key(secret: bytes) -> Credentials:
    return None, b" " + secret


WAYS = [bearer, lower_bearer, basic, x_api_key]

OPEN = [("GET", "/health"), ("HEAD", "/health"), ("GET", "/health?x=1"), ("GET", "/hotseat/ready")]
INFERENCE = [
    ("POST", "/v1/chat/completions"),
    ("GET", "/v1/models"),
    ("GET", "/running"),
    ("GET", "/swagger"),
    ("POST", "/completion"),
    ("GET", "/slots"),
    ("GET", "/props?x=/slots"),
    ("POST", "/upstream/m/completion"),
    ("GET", "/upstream/m/props"),
    ("GET", "/upload"),
    ("GET", "/health/"),
    ("POST", "/health"),
    ("DELETE", "/health"),
    ("POST", "/v1/slotsmachine"),
]
OPERATE = [
    ("GET", "/upstream/m/load"),
    ("GET", "/upstream/org/m/load?x=1"),
    ("DELETE", "/upstream/m"),
    ("DELETE", "/upstream/m?force=true"),
    ("GET", "/hotseat/events"),
    ("HEAD", "/hotseat/logs"),
    ("GET", "/hotseat/ui/"),
    ("POST", "/hotseat/reload"),
    ("POST", "/hotseat/yield"),
    ("DELETE", "/hotseat/yield"),
    ("POST", "/hotseat/profiles/night"),
    ("DELETE", "/hotseat/profiles"),
    ("DELETE", "/hotseat/requests/7"),
    ("GET", "/hotseat/fleet"),
    ("PUT", "/hotseat/fleet/hosts/b/cordon"),
    ("DELETE", "/hotseat/fleet/hosts/b/drain"),
    ("POST", "/hotseat/fleet/models/m/move?to=b"),
    ("GET", "/metrics"),
    ("POST", "/slots/0?action=save"),
    ("POST", "/props"),
    ("POST", "/sl%6fts/0"),
    ("POST", "/upstream/m/slots/0"),
    ("PUT", "/upstream/m/%2Fprops"),
]
ADMIN = [
    ("POST", "/hotseat/anything"),
    ("POST", "/hotseat/ready"),
    ("DELETE", "/hotseat/models/m"),
    ("POST", "/hotseat/reload/x"),
]

ROUTES = [
    (method, path, needed)
    for needed, routes in ((None, OPEN), (Role.INFERENCE, INFERENCE), (Role.OPERATE, OPERATE), (Role.ADMIN, ADMIN))
    for method, path in routes
]


@pytest.mark.parametrize(("method", "path", "needed"), ROUTES)
def test_without_keys_all_pass_and_nothing_is_touched(method: str, path: str, needed: Role | None) -> None:
    """Credentials are the upstream's matter while we have none of our own."""
    verdict = Keys(()).authorize(method.encode(), path.encode(), b"Bearer upstream", b"other")

    assert verdict == UNTOUCHED == Verdict()
    assert verdict.account is None


@pytest.mark.parametrize(("method", "path", "needed"), ROUTES)
@pytest.mark.parametrize("role", Role)
@pytest.mark.parametrize("way", WAYS)
def test_each_role_opens_its_routes_and_those_below(
    way: Callable[[bytes], Credentials], role: Role, method: str, path: str, needed: Role | None
) -> None:
    """Every way to send a key gets the same verdict, and the header that carried it is removed."""
    authorization, key = way(SECRETS[role])
    order = list(Role)
    if needed is not None and order.index(role) < order.index(needed):
        with pytest.raises(Forbidden, match=f"role {needed.value}"):
            KEYS.authorize(method.encode(), path.encode(), authorization, key)
        return

    verdict = KEYS.authorize(method.encode(), path.encode(), authorization, key)

    assert verdict == Verdict(remove_authorization=authorization is not None, remove_x_api_key=key is not None)


@pytest.mark.parametrize(("method", "path", "needed"), ROUTES)
@pytest.mark.parametrize(
    ("authorization", "key"),
    [
        (None, None),
        (b"", b""),
        (b"Bearer", None),
        (b"Bearer ", None),
        (b"Bearer wrong", b"wrong"),
        (b"Bearer chat2", None),
        (b"Bearer CHAT", None),
        (b"chat", None),
        (b"Digest chat", None),
        (b"Basic chat", None),
        (b"Basic !!!!", None),
        (b"Basic " + b64encode(b"chat"), None),
        (b"Basic " + b64encode(b"chat:wrong"), None),
    ],
)
def test_without_a_known_key_only_the_health_is_told(
    authorization: bytes | None, key: bytes | None, method: str, path: str, needed: Role | None
) -> None:
    """Every route but /health asks for a key."""
    if needed is None:
        assert KEYS.authorize(method.encode(), path.encode(), authorization, key) == UNTOUCHED
        return

    with pytest.raises(Unauthorized, match="x-api-key"):
        KEYS.authorize(method.encode(), path.encode(), authorization, key)


@pytest.mark.parametrize(
    ("authorization", "key", "verdict"),
    [
        (b"Bearer upstream", b"chat", Verdict(remove_x_api_key=True)),
        (b"Bearer chat", b"upstream", Verdict(remove_authorization=True)),
        (b"Bearer chat", b"run", Verdict(remove_authorization=True, remove_x_api_key=True)),
    ],
)
def test_other_credentials_still_pass(authorization: bytes, key: bytes, verdict: Verdict) -> None:
    """Only what carried one of our keys is removed."""
    assert KEYS.authorize(b"POST", b"/v1/chat/completions", authorization, key) == verdict


def test_the_better_of_two_keys_counts() -> None:
    """Who sends two keys of ours may do what either of them may."""
    for authorization, key in ((b"Bearer chat", b"run"), (b"Bearer run", b"chat")):
        verdict = KEYS.authorize(b"DELETE", b"/upstream/m", authorization, key)

        assert verdict == Verdict(remove_authorization=True, remove_x_api_key=True)


@given(st.none() | st.binary(max_size=30), st.none() | st.binary(max_size=30), st.binary(max_size=30))
def test_no_header_causes_anything_but_a_refusal(authorization: bytes | None, key: bytes | None, path: bytes) -> None:
    """Strangers are refused, whatever they send, except where /health is asked."""
    with pytest.raises(ClientError):
        KEYS.authorize(b"GET", b"/" + path + b"x", authorization and b"Basic " + authorization, key)


@pytest.mark.parametrize(("method", "path", "needed"), ROUTES)
def test_what_changes_something_is_marked_and_what_is_only_read_is_not(
    method: str, path: str, needed: Role | None
) -> None:
    """Of what operators may do, everything but reading is an action; a load is one though it is a GET."""
    is_above = needed in (Role.OPERATE, Role.ADMIN)
    is_action = is_above and (method not in ("GET", "HEAD") or path.partition("?")[0].endswith("/load"))

    assert Keys(()).authorize(method.encode(), path.encode(), None, None).is_action is is_action
    assert KEYS.authorize(method.encode(), path.encode(), *bearer(SECRETS[Role.ADMIN])).is_action is is_action


def test_a_key_of_which_only_the_hash_is_known_opens_all_the_same() -> None:
    """Nothing in the configuration can be sent as a key."""
    hashed = sha256(b"sesame").hexdigest()
    keys = Keys(Accounts().open((ApiKey("", Role.INFERENCE, name="ann", hashed=hashed),)))

    assert keys.authorize(b"GET", b"/v1/models", *bearer(b"sesame")).holder == "ann"
    for wrong in (hashed.encode(), b"sha256:" + hashed.encode(), b""):
        with pytest.raises(Unauthorized):
            keys.authorize(b"GET", b"/v1/models", *bearer(wrong))
