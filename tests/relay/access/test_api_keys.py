"""API keys: whose a key is, which role it has, and which header carried it."""

from __future__ import annotations

from base64 import b64encode
from hashlib import sha256
from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hotseat.activity.usage import Accounts
from hotseat.errors import ClientError, Forbidden, Unauthorized
from hotseat.relay.access.api_keys import UNTOUCHED, Keys, Verdict
from hotseat.settings import ApiKey, Role

if TYPE_CHECKING:
    from collections.abc import Callable

KEYS = Keys(
    Accounts().open((ApiKey("chat", Role.INFERENCE), ApiKey("run", Role.OPERATE), ApiKey("schlüssel", Role.ADMIN))),
    is_required=True,
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

UNKNOWN_KEYS = [
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
]


def test_without_keys_all_pass_and_nothing_is_touched() -> None:
    """Without configured keys every role check passes and no credentials are removed."""
    keys = Keys((), is_required=False)
    verdict = keys.identify(b"Bearer upstream", b"other")
    keys.check_known(verdict)
    for needed in Role:
        keys.check_role(verdict, needed)

    assert verdict == UNTOUCHED == Verdict()
    assert verdict.account is None


@pytest.mark.parametrize("role", Role)
@pytest.mark.parametrize("way", WAYS)
def test_each_way_to_send_a_key_says_who_asks(way: Callable[[bytes], Credentials], role: Role) -> None:
    """The verdict is the same, and the header that carried the key is removed."""
    authorization, key = way(SECRETS[role])
    verdict = KEYS.identify(authorization, key)
    KEYS.check_known(verdict)

    assert verdict == Verdict(remove_authorization=authorization is not None, remove_x_api_key=key is not None)
    assert verdict.role is role


@pytest.mark.parametrize("needed", Role)
@pytest.mark.parametrize("role", Role)
def test_each_role_may_do_what_those_below_it_may(role: Role, needed: Role) -> None:
    """A role passes the checks for itself and for lower roles, and no others."""
    verdict = KEYS.identify(*bearer(SECRETS[role]))
    KEYS.check_role(verdict, None)
    if list(Role).index(role) >= list(Role).index(needed):
        KEYS.check_role(verdict, needed)
        return

    with pytest.raises(Forbidden, match=f"role {needed.value}"):
        KEYS.check_role(verdict, needed)


@pytest.mark.parametrize(("authorization", "key"), UNKNOWN_KEYS)
def test_without_a_known_key_nobody_passes(authorization: bytes | None, key: bytes | None) -> None:
    """Unknown, empty and malformed credentials are refused, and have no role."""
    verdict = KEYS.identify(authorization, key)

    assert verdict == UNTOUCHED
    with pytest.raises(Unauthorized, match="x-api-key"):
        KEYS.check_known(verdict)
    for needed in Role:
        with pytest.raises(Forbidden):
            KEYS.check_role(verdict, needed)


@pytest.mark.parametrize("configured", [ApiKey(""), ApiKey("", hashed=sha256(b"").hexdigest())])
@pytest.mark.parametrize(
    ("authorization", "key"),
    [(None, b""), (None, b" \t"), (b"Bearer ", None), (b"Basic " + b64encode(b"anybody:"), None)],
)
def test_nothing_empty_is_a_key(configured: ApiKey, authorization: bytes | None, key: bytes | None) -> None:
    """An empty credential is refused even if an empty key, or the hash of one, is configured."""
    keys = Keys(Accounts().open((configured,)), is_required=True)

    with pytest.raises(Unauthorized):
        keys.check_known(keys.identify(authorization, key))


@pytest.mark.parametrize(
    ("authorization", "key", "verdict"),
    [
        (b"Bearer upstream", b"chat", Verdict(remove_x_api_key=True)),
        (b"Bearer chat", b"upstream", Verdict(remove_authorization=True)),
        (b"Bearer chat", b"run", Verdict(remove_authorization=True, remove_x_api_key=True)),
    ],
)
def test_other_credentials_still_pass(authorization: bytes, key: bytes, verdict: Verdict) -> None:
    """Only headers that carried a configured key are removed."""
    assert KEYS.identify(authorization, key) == verdict


def test_the_better_of_two_keys_counts() -> None:
    """If both headers carry a configured key, the one with the higher role counts."""
    for authorization, key in ((b"Bearer chat", b"run"), (b"Bearer run", b"chat")):
        verdict = KEYS.identify(authorization, key)

        assert verdict == Verdict(remove_authorization=True, remove_x_api_key=True)
        assert verdict.role is Role.OPERATE
        assert verdict.account is not None
        assert verdict.account.digest == sha256(b"run").digest()


@given(st.none() | st.binary(max_size=30), st.none() | st.binary(max_size=30))
def test_no_header_causes_anything_but_a_refusal(authorization: bytes | None, key: bytes | None) -> None:
    """Arbitrary bytes as credentials are refused with a client error."""
    with pytest.raises(ClientError):
        KEYS.check_known(KEYS.identify(authorization and b"Basic " + authorization, key))


def test_a_key_of_which_only_the_hash_is_known_opens_all_the_same() -> None:
    """A key configured by its hash is accepted; the hash itself is not a key."""
    hashed = sha256(b"sesame").hexdigest()
    keys = Keys(Accounts().open((ApiKey("", Role.INFERENCE, name="ann", hashed=hashed),)), is_required=True)

    assert keys.identify(*bearer(b"sesame")).holder == "ann"
    for wrong in (hashed.encode(), b"sha256:" + hashed.encode(), b""):
        assert keys.identify(*bearer(wrong)).account is None
