"""Which parts of a request reach the upstream."""

from __future__ import annotations

import asyncio
import ssl
from typing import TYPE_CHECKING

import pytest
from tests.support.certificate import CERTIFICATE
from tests.support.fake_launcher import spec
from tests.support.relay_rig import HELLO, chunked, get, post

from hotseat.catalog.spec import BodyChanges
from hotseat.identifiers import Address
from hotseat.relay.access.policy import Policy
from hotseat.settings import Access, ApiKey, Role, Settings

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from pathlib import Path

    from tests.relay.conftest import OpenRig
    from tests.support.relay_rig import RelayRig


async def test_fields_arrive_as_they_were_sent(rig: RelayRig) -> None:
    """Names keep their case, repeated fields stay repeated, values keep their bytes."""
    asked, _ = await rig.exchange(get("/slots?model=alpha", "X-ODD-Case: a;b", "Cookie: a", "Cookie: b", "X-Umlaut: ü"))

    assert ("X-ODD-Case", "a;b") in asked.fields
    assert asked.all("Cookie") == ["a", "b"]
    assert asked["X-Umlaut"] == "ü"


@pytest.mark.parametrize(
    "field",
    [
        "Keep-Alive: timeout=5",
        "Proxy-Connection: keep-alive",
        "TE: trailers",
        "Trailer: X-Sum",
        "Upgrade: other",
        "Proxy-Authenticate: Basic",
        "Proxy-Authorization: Basic eDp5",
        "Expect: 100-continue",
        "Hotseat-Role: admin",
        "hotseat-anything: 1",
        "X-Forwarded-For: 6.6.6.6",
        "X-Forwarded-Proto: https",
        "X-Forwarded-Host: evil",
        "X-Forwarded-User: boss",
        "X-Forwarded-Port: 4443",
        "x-forwarded-prefix: /evil",
        "X-Forwarded-Anything: 1",
        "X-Real-IP: 6.6.6.6",
        "Forwarded: for=6.6.6.6",
    ],
)
async def test_what_ends_here_does_not_reach_the_upstream(rig: RelayRig, field: str) -> None:
    """Hop-by-hop fields, our internal ones, and proxy headers from an untrusted client are removed."""
    name, _, value = field.partition(": ")
    asked, _ = await rig.exchange(get("/slots?model=alpha", field))

    assert value not in asked.all(name)


async def test_fields_named_in_connection_end_here(rig: RelayRig) -> None:
    """Fields named in any Connection field are removed."""
    asked, _ = await rig.exchange(
        get(
            "/slots?model=alpha",
            "Connection: X-One, keep-alive",
            "connection:X-Two",
            "X-One: 1",
            "x-two: 2",
            "X-Three: 3",
        )
    )

    assert {"connection", "x-one", "x-two"}.isdisjoint(asked.names)
    assert asked["X-Three"] == "3"


@pytest.mark.parametrize("value", ["50% off, %41", "a%0d%0aX-Other: 1", "a%0A", "a%00", "{}", "=?utf-8?q?x?="])
async def test_a_value_never_decides_whether_a_field_passes(rig: RelayRig, value: str) -> None:
    """A field passes unchanged whatever its value is, with its head cached and not."""
    for _ in range(3):
        asked, _ = await rig.exchange(get("/slots?model=alpha", f"X-Odd: {value}"))

        assert asked.all("X-Odd") == [value]


async def test_the_upstream_receives_where_the_request_came_from(rig: RelayRig) -> None:
    """Host is the upstream's own; the client's is forwarded under another name."""
    asked, _ = await rig.exchange(get())

    assert asked["Host"] == f"127.0.0.1:{rig.alpha.address.port}"
    assert asked["X-Forwarded-For"] == "127.0.0.1"
    assert asked["X-Forwarded-Host"] == "box"
    assert asked["X-Forwarded-Proto"] == "http"


async def test_a_trusted_proxy_is_believed(open_rig: OpenRig) -> None:
    """A trusted proxy's forwarding headers are kept, and its address is appended."""
    rig = await open_rig(access=Access(trusted_proxies=("127.0.0.0/8",)))
    said = ("X-Forwarded-For: 1.1.1.1", "X-Forwarded-For: 2.2.2.2", "X-Forwarded-Proto: https", "X-Forwarded-Host: out")
    others = ("X-Forwarded-Port: 443", "X-Forwarded-User: ann")
    asked, _ = await rig.exchange(get("/slots?model=alpha", *said, *others))

    assert asked["X-Forwarded-For"] == "1.1.1.1, 2.2.2.2, 127.0.0.1"
    assert asked["X-Forwarded-Proto"] == "https"
    assert asked["X-Forwarded-Host"] == "out"
    assert (asked["X-Forwarded-Port"], asked["X-Forwarded-User"]) == ("443", "ann")


async def test_a_trusted_proxy_that_says_nothing_is_spoken_for(open_rig: OpenRig) -> None:
    """Without headers from the trusted proxy, hotseat adds all three."""
    rig = await open_rig(access=Access(trusted_proxies=("127.0.0.1",)))
    asked, _ = await rig.exchange(get())

    assert asked["X-Forwarded-For"] == "127.0.0.1"
    assert asked["X-Forwarded-Host"] == "box"
    assert asked["X-Forwarded-Proto"] == "http"


async def test_only_listed_proxies_are_trusted(open_rig: OpenRig) -> None:
    """The forwarding header of an address outside trustedProxies is replaced."""
    rig = await open_rig(access=Access(trusted_proxies=("10.0.0.0/8",)))
    asked, _ = await rig.exchange(get("/slots?model=alpha", "X-Forwarded-For: 6.6.6.6"))

    assert asked["X-Forwarded-For"] == "127.0.0.1"


@pytest.mark.parametrize(
    ("peer", "is_trusted"),
    [
        ("10.1.2.3", True),
        ("::ffff:10.1.2.3", True),
        ("fd00::7", True),
        ("11.1.2.3", False),
        ("::ffff:11.1.2.3", False),
        ("fe80::1%eth0", False),
        ("local", False),
    ],
)
def test_a_proxy_is_trusted_by_its_address(peer: str, is_trusted: bool) -> None:
    """A mapped IPv4 address counts as IPv4; a unix socket is not trusted."""
    rules = Policy(Settings(access=Access(trusted_proxies=("10.0.0.0/8", "fd00::/16"))))

    assert rules.trusts(peer) is is_trusted


async def test_a_binary_body_arrives_byte_by_byte(rig: RelayRig) -> None:
    """A binary body arrives unchanged, with its length."""
    body = bytes(range(256)) * 300
    head = get("/upload?model=alpha", "Transfer-Encoding: chunked", method="PUT")
    asked, _ = await rig.exchange(head + chunked(body[:1000], body[1000:]))

    assert asked.body == body
    assert asked["Content-Length"] == str(len(body))


async def test_json_that_nobody_changes_arrives_byte_by_byte(rig: RelayRig) -> None:
    """Unchanged JSON keeps its spaces, order, large numbers and duplicate members."""
    body = b'{ "n":12345678901234567890,\n "model" : "alpha","x":1e400, "x":2 }'
    asked, _ = await rig.exchange(post(body))

    assert asked.body == body


async def test_an_empty_post_says_so(rig: RelayRig) -> None:
    """An empty POST has Content-Length 0, and a GET has none."""
    posted, _ = await rig.exchange(post(b"", target="/upstream/alpha/reset"))
    got, _ = await rig.exchange(get())

    assert posted["Content-Length"] == "0"
    assert "content-length" not in got.names


RENAMED = spec("alpha", changes=BodyChanges("real", strip=("temperature",), set={"seed": 1}))


async def test_the_configured_changes_are_made(open_rig: OpenRig) -> None:
    """useModelName, stripParams and setParams are applied to a JSON body."""
    rig = await open_rig(models=(RENAMED,))
    asked, _ = await rig.exchange(post(b'{"model":"alpha","temperature":1.50,"top_p":0.10}'))

    assert asked.body == b'{"model":"real","top_p":0.10,"seed":1}'


async def test_the_configured_changes_are_made_in_forms_too(open_rig: OpenRig) -> None:
    """useModelName changes the model field of a form."""
    rig = await open_rig(models=(RENAMED,))
    form = b'--x\r\nContent-Disposition: form-data; name="model"\r\n\r\nalpha\r\n--x--\r\n'
    asked, _ = await rig.exchange(post(form, "Content-Type: multipart/form-data; boundary=x"))

    assert asked.body == form.replace(b"alpha", b"real")


async def test_forms_are_left_alone_when_only_members_change(open_rig: OpenRig) -> None:
    """stripParams does not change a form."""
    rig = await open_rig(models=(spec("alpha", changes=BodyChanges(strip=("x",))),))
    form = b'--x\r\nContent-Disposition: form-data; name="model"\r\n\r\nalpha\r\n--x--\r\n'
    asked, _ = await rig.exchange(post(form, "Content-Type: multipart/form-data; boundary=x"))

    assert asked.body == form


async def test_requests_without_a_body_have_nothing_to_change(open_rig: OpenRig) -> None:
    """A GET to a model with filters has no body."""
    rig = await open_rig(models=(RENAMED,))
    asked, _ = await rig.exchange(get())

    assert asked.body == b""


KEYS = Access(api_keys=(ApiKey("ours", Role.OPERATE), ApiKey("lesser", Role.INFERENCE)))


async def test_without_keys_credentials_pass_untouched(rig: RelayRig) -> None:
    """Without configured keys, credentials reach the upstream unchanged."""
    asked, _ = await rig.exchange(get("/slots?model=alpha", "Authorization: Bearer theirs", "X-Api-Key: theirs"))

    assert asked["Authorization"] == "Bearer theirs"
    assert asked["X-Api-Key"] == "theirs"


@pytest.mark.parametrize(
    ("credentials", "left"),
    [
        (("Authorization: Bearer ours", "X-Api-Key: theirs"), {"x-api-key"}),
        (("Authorization: Bearer theirs", "X-Api-Key: ours"), {"authorization"}),
        (("Authorization: Bearer ours", "X-Api-Key: ours"), set()),
    ],
)
async def test_our_own_key_ends_here(open_rig: OpenRig, credentials: tuple[str, ...], left: set[str]) -> None:
    """Headers with a configured key are removed; other credentials reach the upstream."""
    rig = await open_rig(access=KEYS)
    asked, _ = await rig.exchange(get("/slots?model=alpha", *credentials))

    assert {"authorization", "x-api-key"} & set(asked.names) == left


@pytest.mark.parametrize(
    ("fields", "status"),
    [((), 401), (("Authorization: Bearer wrong",), 401), (("X-Api-Key: lesser",), 403)],
    ids=["no key", "wrong key", "too low a role"],
)
async def test_without_the_right_key_nothing_happens(open_rig: OpenRig, fields: tuple[str, ...], status: int) -> None:
    """Without a sufficient key, the request does not reach the management API."""
    rig = await open_rig(access=KEYS)
    answered = await rig.refusal(get("/upstream/alpha", *fields, method="DELETE"))

    assert answered.status == status
    assert rig.management.requests == 0


async def test_the_prefix_of_a_proxy_address_goes_before_the_path(rig: RelayRig) -> None:
    """`proxy: http://host/base` puts /base before every path."""
    rig.launcher.addresses["alpha"] = rig.alpha.address._replace(prefix="/base")
    asked, _ = await rig.exchange(get("/slots?model=alpha"))

    assert asked.first_line == "GET /base/slots?model=alpha HTTP/1.1"


async def test_an_ipv6_upstream_is_named_in_brackets(rig: RelayRig) -> None:
    """The Host of an IPv6 upstream has brackets around the address."""
    address = rig.alpha.address._replace(host="::ffff:127.0.0.1")
    rig.launcher.addresses["alpha"] = address
    asked, _ = await rig.exchange(get())

    assert asked["Host"] == f"[::ffff:127.0.0.1]:{address.port}"


@pytest.fixture
async def tls_port(tmp_path: Path) -> AsyncIterator[int]:
    """The port of a TLS server with a certificate that the system does not know."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    (tmp_path / "certificate.pem").write_text(CERTIFICATE)
    context.load_cert_chain(tmp_path / "certificate.pem")

    async def greet(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(HELLO)
        writer.close()
        await writer.wait_closed()

    async with await asyncio.start_server(greet, "127.0.0.1", 0, ssl=context) as server:
        yield server.sockets[0].getsockname()[1]


async def test_an_upstream_behind_tls_is_reached(
    rig: RelayRig, tls_port: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An upstream with https is reached over TLS."""
    monkeypatch.setenv("SSL_CERT_FILE", str(tmp_path / "certificate.pem"))
    rig.launcher.addresses["alpha"] = Address("localhost", tls_port, tls=True)
    client = await rig.send(get())

    assert (await client.message()).body == b"hello"


@pytest.mark.usefixtures("impatient")
async def test_an_upstream_with_a_foreign_certificate_is_not_trusted(rig: RelayRig, tls_port: int) -> None:
    """An upstream whose certificate is not trusted is a 502."""
    rig.launcher.addresses["alpha"] = Address("localhost", tls_port, tls=True)
    answered = await rig.refusal(get())

    assert answered.status == 502
    assert "certificate" in answered.body.decode()


async def test_management_paths_reach_the_management_api(rig: RelayRig) -> None:
    """A management path goes to the API, without the client's Hotseat-Role and without a record."""
    client = await rig.send(get("/health", "Hotseat-Role: admin"))
    call = await rig.management.call()
    await call.say(HELLO)

    assert call.request.first_line == "GET /health HTTP/1.1"
    assert call.request["Host"] == "localhost"
    assert "hotseat-role" not in call.request.names
    assert (await client.message()).body == b"hello"
    assert rig.activity.entries == []
