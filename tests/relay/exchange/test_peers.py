"""Requests for peers' models, for selectors and under a profile, through a running relay."""

from __future__ import annotations

import json
import socket
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest
from tests.support.alarms import Alarms
from tests.support.fake_launcher import spec
from tests.support.relay_rig import HELLO, chat, get, post
from tests.support.scripted_upstream import on_a_port
from tests.support.waiting import come_true

from hotseat.catalog.named_models import Profile, RemoteModel, Selector, Strategy
from hotseat.catalog.spec import BodyChanges, Timeouts
from hotseat.identifiers import Address, ModelName
from hotseat.scheduling.events import ProfileChanged
from hotseat.settings import Access, ApiKey, Role

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from tests.relay.conftest import OpenRig
    from tests.support.relay_rig import RelayRig
    from tests.support.scripted_upstream import ScriptedUpstream

HIGH = spec("alpha", changes_by_name={"alpha:high": BodyChanges(set={"effort": 9})}, aliases=("alpha:high",))
MODELS = (HIGH, spec("beta"))
BEST = Selector("best", Strategy.WARM, ("beta", "alpha"))
KEY = "Authorization: Bearer ours"
FAR = ModelName("box/far")


@pytest.fixture
async def box() -> AsyncIterator[ScriptedUpstream]:
    """A peer."""
    server = on_a_port()
    yield server
    await server.aclose()


def far(address: Address, **known: Any) -> dict[str, RemoteModel]:
    changes = BodyChanges(model_name="far", set={"top_k": 5})
    remote = RemoteModel(FAR, "box", address._replace(prefix="/llm"), changes, **known)
    return {"box/far": remote, "far": remote}


async def test_a_request_for_a_peer_goes_there_at_once(open_rig: OpenRig, box: ScriptedUpstream) -> None:
    """A peer's request starts no local model, and the peer gets its own name of the model."""
    rig = await open_rig(models=MODELS, remotes=far(box.address))
    client = await rig.send(chat("box/far"))
    call = await box.call()
    await call.say(HELLO)

    assert (await client.message()).body == b"hello"
    assert call.request.first_line == "POST /llm/v1/chat/completions HTTP/1.1"
    assert json.loads(call.request.body) == {"model": "far", "top_k": 5}
    assert rig.phase("alpha") == rig.phase("beta") == "cold"
    assert [(entry.model, entry.status) for entry in rig.activity.entries] == [("box/far", 200)]
    assert rig.relay.context.peer_requests[FAR] == 0


async def test_a_peer_gets_its_own_key_and_not_ours(open_rig: OpenRig, box: ScriptedUpstream) -> None:
    """The client's credentials are replaced by the peer's key, with its head cached and not."""
    remotes = far(box.address, api_key="theirs")
    rig = await open_rig(models=MODELS, remotes=remotes, access=Access(api_keys=(ApiKey("ours"),)))
    for _ in range(2):  # the second time the client's head is known already
        await rig.send(chat("far", KEY, "x-api-key: mine", "X-Other: stays"))
        call = await box.call()
        await call.say(HELLO)

        assert (call.request["authorization"], call.request["x-api-key"]) == ("Bearer theirs", "theirs")
        assert call.request["x-other"] == "stays"


async def test_a_peers_key_goes_nowhere_else(open_rig: OpenRig, box: ScriptedUpstream) -> None:
    """A request with the same head to a local model has the client's own credentials."""
    rig = await open_rig(models=MODELS, remotes=far(box.address, api_key="theirs"))
    client = await rig.send(chat("far", "Authorization: Bearer mine"))
    await (await box.call()).say(HELLO)
    await client.message()
    await client.send(chat("alpha", "Authorization: Bearer mine"))
    call = await rig.alpha.call()
    await call.say(HELLO)

    assert call.request["authorization"] == "Bearer mine"
    assert "x-api-key" not in call.request.names


async def test_a_peer_without_a_key_receives_the_clients(open_rig: OpenRig, box: ScriptedUpstream) -> None:
    """A peer without a configured key gets the client's credentials."""
    rig = await open_rig(models=MODELS, remotes=far(box.address))
    await rig.send(chat("far", "Authorization: Bearer mine"))
    call = await box.call()
    await call.say(HELLO)

    assert call.request["authorization"] == "Bearer mine"


async def test_a_peer_that_cannot_be_reached_is_named(open_rig: OpenRig) -> None:
    """An unreachable peer is a 502 that names the model."""
    rig = await open_rig(models=MODELS, remotes=far(Address("127.0.0.1", 1)))
    answered = await rig.refusal(chat("far"))

    assert answered.status == 502
    assert b"box/far is unreachable" in answered.body
    assert rig.relay.context.peer_requests[FAR] == 0


async def test_a_client_that_leaves_ends_its_request_at_the_peer(open_rig: OpenRig, box: ScriptedUpstream) -> None:
    """A disconnect closes the connection to the peer, and the request is no longer counted."""
    rig = await open_rig(models=MODELS, remotes=far(box.address))
    client = await rig.send(chat("far"))
    call = await box.call()
    assert rig.relay.context.peer_requests[FAR] == 1
    client.hang_up()

    await call.ended()
    await come_true(lambda: rig.relay.context.peer_requests[FAR] == 0)


async def test_a_request_that_is_refused_here_is_not_counted_there(open_rig: OpenRig, box: ScriptedUpstream) -> None:
    """Invalid JSON for a peer gets 400 and is not counted."""
    rig = await open_rig(models=MODELS, remotes=far(box.address))
    answered = await rig.refusal(post(b"{oops", "Content-Type: application/json", target="/upstream/box/far/v1/x"))

    assert answered.status == 400
    assert rig.relay.context.peer_requests[FAR] == 0


async def test_a_request_that_comes_back_from_a_peer_is_refused(rig: RelayRig) -> None:
    """A peer that is hotseat itself gets a request once: the second time it is not sent out again."""
    itself = RemoteModel(FAR, "box", Address("127.0.0.1", rig.port), BodyChanges(model_name="far"))
    rig.dispatcher.catalog = replace(rig.dispatcher.catalog, remotes={"far": itself})
    answered = await rig.refusal(chat("far"))

    assert answered.status == 508
    assert b"box/far: the request came back from this peer" in answered.body
    assert rig.activity.refusals == ["forwarding_loop"]
    assert [(entry.model, entry.status) for entry in rig.activity.entries] == [("box/far", 508), ("box/far", 508)]
    assert rig.relay.context.peer_requests[FAR] == 0


async def test_a_request_that_has_passed_other_proxies_reaches_a_peer(open_rig: OpenRig, box: ScriptedUpstream) -> None:
    """The peer is told of all of them; one that has passed this relay already may still use its own models."""
    rig = await open_rig(models=MODELS, remotes=far(box.address))
    await rig.send(chat("far", "Via: 1.1 other"))
    call = await box.call()
    await call.say(HELLO)
    others, ours = call.request.all("via")
    request, answered = await rig.exchange(chat("alpha", f"Via: {others}, {ours}"))

    assert (others, ours.partition("-")[0]) == ("1.1 other", "1.1 hotseat")
    assert (request["via"], answered.status) == (f"{others}, {ours}", 200)


async def test_a_peer_that_takes_too_long_is_given_up(open_rig: OpenRig, box: ScriptedUpstream) -> None:
    """A peer that exceeds timeouts.responseHeader is a 502 that names the setting."""
    remotes = far(box.address, timeouts=Timeouts(response_header_s=0.05))
    rig = await open_rig(models=MODELS, remotes=remotes)
    client = await rig.send(chat("far"))
    call = await box.call()
    answered = await client.message()

    assert answered.status == 502
    assert b"box/far did not respond within 0.05 s (timeouts.responseHeader)" in answered.body
    await call.ended()


async def test_an_answer_that_has_begun_may_take_its_time(open_rig: OpenRig) -> None:
    """timeouts.responseHeader does not apply after the response head."""
    rig, alarms = await open_rig(models=(spec("alpha", timeouts=Timeouts(response_header_s=60.0)),)), Alarms()
    rig.relay.context.later = alarms.later  # type: ignore[assignment]
    client, call = await rig.reached(chat())
    alarms.wait(59)
    await call.say(b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\n")
    await client.read_until(b"\r\n\r\n")
    alarms.wait(600)
    await call.say(b"hello")

    assert await client.read_exactly(5) == b"hello"


# What a peer is asked


NOT_FOR_PEERS = [
    ("POST", "/hotseat/yield"),
    ("GET", "/hotseat/config"),
    ("GET", "/metrics"),
    ("GET", "/health"),
    ("GET", "/v1/models"),
    ("GET", "/upstream/other/load"),
    ("DELETE", "/upstream/other"),
    ("POST", "/upstream/other/v1/chat/completions"),
    ("POST", "/slots/0?action=erase"),
    ("POST", "/v1/chat/completions/"),
    ("POST", "/v1%2Fchat/completions"),
]


@pytest.mark.parametrize("keys", [(), (ApiKey("ours", Role.ADMIN),)], ids=["no keys", "an admin"])
@pytest.mark.parametrize(("method", "path"), NOT_FOR_PEERS)
async def test_nobody_manages_a_peer_with_our_key(
    open_rig: OpenRig, box: ScriptedUpstream, method: str, path: str, keys: tuple[ApiKey, ...]
) -> None:
    """Paths other than inference get 403 and do not reach the peer, whatever the client's role."""
    rig = await open_rig(models=MODELS, remotes=far(box.address, api_key="theirs"), access=Access(api_keys=keys))
    answered = await rig.refusal(get(f"/upstream/box/far{path}", KEY, method=method))

    assert answered.status == 403
    assert b"is not forwarded to peers: box is used for inference only" in answered.body
    assert box.lines == []
    assert rig.relay.context.peer_requests[FAR] == 0


NO_NAME = b'--xyz\r\nContent-Disposition: form-data; name="file"; filename="a.wav"\r\n\r\nx\r\n--xyz--\r\n'
FORM = "Content-Type: multipart/form-data; boundary=xyz"


@pytest.mark.parametrize(
    ("request_bytes", "target"),
    [
        (chat("box/far"), "/v1/chat/completions"),
        (post(b'{"model":"x"}', target="/upstream/box/far/v1/completions?model=other"), "/v1/completions?model=far"),
        (post(b"{}", target="/v1/completions?mod%65l=o&model=far&a=1"), "/v1/completions?a=1&model=far"),
        (post(b"RIFF", target="/v1/audio/transcriptions?model=far"), "/v1/audio/transcriptions?model=far"),
        (post(b"RIFF", target="/upstream/far/inference"), "/inference?model=far"),
        (post(NO_NAME, FORM, target="/upstream/far/v1/images/edits"), "/v1/images/edits?model=far"),
        (get("/v1/audio/voices?model=box/far"), "/v1/audio/voices?model=far"),
    ],
    ids=["body", "body and another name", "spelled twice", "opaque body", "no name at all", "form", "no body"],
)
async def test_a_peer_receives_the_name_of_one_model_only(
    open_rig: OpenRig, box: ScriptedUpstream, request_bytes: bytes, target: str
) -> None:
    """The peer gets only its own name of the model, in the query and in the body."""
    rig = await open_rig(models=(HIGH,), remotes=far(box.address))
    for _ in range(2):  # the second time the client's head is known already
        client = await rig.send(request_bytes)
        call = await box.call()
        await call.say(HELLO)
        await client.message()

        assert call.request.first_line.split()[1] == f"/llm{target}"
        if call.request.body.startswith(b"{"):
            assert json.loads(call.request.body)["model"] == "far"


def form(disposition: str, line_end: str = "\r\n", before: str = "", behind: str = "") -> bytes:
    lines = ["--xyz", f"Content-Disposition: form-data; {disposition}", "", "other", "--xyz--", ""]
    return (before + line_end.join(lines) + behind).encode()


NAMED = 'name="model"'
SECOND_PART = f"x\r\n--xyz\r\nContent-Disposition: form-data; {NAMED}\r\n\r\nother\r\n--xyz--\r\n"
JSON, IN_ONE_LINE = "Content-Type: application/json", "Content-Type: application/x-www-form-urlencoded"
UNSURE: dict[str, tuple[bytes, tuple[str, ...]]] = {
    "compressed": (b"...", (JSON, "Content-Encoding: gzip")),
    "form in one line": (b"model=other", (IN_ONE_LINE,)),
    "two types": (b"model=other", (JSON, IN_ONE_LINE)),
    "not said to be a form": (form(NAMED), ("Content-Type: multipart/mixed; boundary=xyz",)),
    "two boundaries": (form(NAMED), ('Content-Type: multipart/form-data; x="; boundary=a"; boundary=xyz',)),
    "a boundary with blanks": (form(NAMED), ("Content-Type: multipart/form-data; boundary = xyz",)),
    "no boundary": (form(NAMED), ("Content-Type: multipart/form-data",)),
    "another kind of form": (form(NAMED), ("Content-Type: Multipart/Form-Data-Of-A-Kind; boundary=xyz",)),
    "a text and a form": (form(NAMED), ("Content-Type: text/plain", FORM)),
    "an empty file": (form(f'{NAMED}; filename=""'), (FORM,)),
    "a name with a character set": (form("name*=utf-8''model"), (FORM,)),
    "a name in parts": (form('name*0="mod"; name*1="el"'), (FORM,)),
    "a name on the next line": (form('\r\n name="model"'), (FORM,)),
    "lines without CR": (form(NAMED, "\n"), (FORM,)),
    "a text before": (form(NAMED, "\n", before="x\n"), (FORM,)),
    "a part after the end": (form('name="x"', behind=SECOND_PART).replace(b"--xyz--\r\nx", b"--xyz--x"), (FORM,)),
}


@pytest.mark.parametrize("unsure", UNSURE)
async def test_a_body_that_might_name_another_model_goes_to_no_peer(
    open_rig: OpenRig, box: ScriptedUpstream, unsure: str
) -> None:
    """A body that servers may parse differently gets 415 and does not reach the peer."""
    rig = await open_rig(models=(HIGH,), remotes=far(box.address))
    body, fields = UNSURE[unsure]
    answered = await rig.refusal(post(body, *fields, target="/upstream/far/v1/audio/transcriptions"))

    assert answered.status == 415
    assert b"may name a model other than far" in answered.body
    assert box.lines == []
    assert rig.relay.context.peer_requests[FAR] == 0


PLAIN = {
    "of a browser": f'{NAMED}\r\n\r\nx\r\n--xyz\r\nContent-Disposition: form-data; name="file"; filename=""',
    "of .NET": "name=model",
    "with a file": f"{NAMED}\r\n\r\nx\r\n--xyz\r\nContent-Type: audio/wav\r\n"
    'Content-Disposition: form-data; name="file"; filename="a.wav"; filename*=utf-8\'\'a.wav',
}


@pytest.mark.parametrize("plain", PLAIN)
async def test_forms_as_clients_write_them_reach_a_peer(open_rig: OpenRig, box: ScriptedUpstream, plain: str) -> None:
    """Ordinary forms reach the peer with its name of the model."""
    rig = await open_rig(models=(HIGH,), remotes=far(box.address))
    await rig.send(post(form(PLAIN[plain]), FORM, target="/upstream/far/v1/audio/transcriptions"))
    call = await box.call()
    await call.say(HELLO)

    assert b"\r\n\r\nfar\r\n" in call.request.body


async def test_a_form_that_names_its_character_set_reaches_a_peer(open_rig: OpenRig, box: ScriptedUpstream) -> None:
    """A form may have a charset before or after its boundary."""
    rig = await open_rig(models=(HIGH,), remotes=far(box.address))
    for kind in ("charset=utf-8; boundary=xyz", "boundary=xyz; charset=utf-8"):
        fields = f"Content-Type: multipart/form-data; {kind}"
        await rig.send(post(form(NAMED), fields, target="/upstream/far/v1/audio/transcriptions"))
        call = await box.call()
        await call.say(HELLO)

        assert b"\r\n\r\nfar\r\n" in call.request.body


async def test_a_peer_that_ignores_case_receives_one_name(open_rig: OpenRig, box: ScriptedUpstream) -> None:
    """Members that differ from `model` only in case are removed."""
    rig = await open_rig(models=(HIGH,), remotes=far(box.address))
    await rig.send(post(b'{"model":"far","Model":"other","MODEL":"third","modes":1}'))
    call = await box.call()
    await call.say(HELLO)

    assert json.loads(call.request.body) == {"model": "far", "modes": 1, "top_k": 5}


# Names that lead elsewhere


async def test_a_selector_means_what_is_warm(open_rig: OpenRig) -> None:
    """A warm selector picks the running model, and the server gets that model's name."""
    rig = await open_rig(models=MODELS, selectors={"best": BEST})
    asked, _ = await rig.exchange(chat("alpha"))
    warm, _ = await rig.exchange(chat("best"))

    assert json.loads(asked.body) == {"model": "alpha"}
    assert json.loads(warm.body) == {"model": "alpha"}
    assert rig.phase("beta") == "cold"


async def test_a_selector_in_the_url(open_rig: OpenRig) -> None:
    """A selector in the URL is replaced by the path of the selected model."""
    rig = await open_rig(models=MODELS, selectors={"best": replace(BEST, targets=("alpha", "beta"))})
    asked, answered = await rig.exchange(get("/upstream/best/props"))

    assert asked.first_line == "GET /props HTTP/1.1"
    assert answered.status == 200


async def test_a_path_that_starts_nothing_starts_nothing_through_a_selector(open_rig: OpenRig) -> None:
    """upstream.ignorePaths applies to selectors too."""
    rig = await open_rig(models=MODELS, selectors={"best": BEST})
    answered = await rig.refusal(get("/upstream/best/favicon.ico"))

    assert answered.status == 409
    assert rig.phase("beta") == "cold"


async def test_requests_flow_over_to_a_peer(open_rig: OpenRig, box: ScriptedUpstream) -> None:
    """With spillover, the second request goes to the peer while the first is at the local model."""
    both = Selector("both", Strategy.SPILLOVER, ("alpha", "far"))
    rig = await open_rig(models=MODELS, remotes=far(box.address), selectors={"both": both})
    first, at_home = await rig.reached(chat("both"))
    second = await rig.send(chat("both"))
    abroad = await box.call()
    await at_home.say(HELLO)
    await abroad.say(HELLO)

    assert [(await client.message()).status for client in (first, second)] == [200, 200]
    assert [json.loads(call.request.body)["model"] for call in (at_home, abroad)] == ["alpha", "far"]


async def test_a_name_by_id_sets_its_own_members(open_rig: OpenRig) -> None:
    """setParamsByID applies to its own name and not to the model's other names."""
    rig = await open_rig(models=MODELS)
    high, _ = await rig.exchange(chat("alpha:high"))
    plain, _ = await rig.exchange(chat("alpha"))

    assert json.loads(high.body) == {"model": "alpha:high", "effort": 9}
    assert json.loads(plain.body) == {"model": "alpha"}


async def test_a_profile_counts_from_the_next_request_on(open_rig: OpenRig) -> None:
    """A profile applies to the next request, even on a connection with cached heads."""
    night = Profile("night", "", {"gpt": "alpha:high", "beta": ""})
    rig = await open_rig(models=MODELS, profiles={"night": night})
    client = await rig.send(post(b'{"model":"gpt"}'))
    before = await client.message()
    rig.dispatcher.tell(ProfileChanged("night"))
    await client.send(post(b'{"model":"gpt"}'))
    call = await rig.alpha.call()
    await call.say(HELLO)
    await client.message()
    hidden = await rig.refusal(chat("beta"))

    assert before.status == 404
    assert json.loads(call.request.body) == {"model": "alpha:high", "effort": 9}
    assert hidden.status == 404
    assert b"disabled by the active profile" in hidden.body


# What is said of connections


async def test_a_connection_rests_no_longer_than_it_may(open_rig: OpenRig) -> None:
    """A connection that was idle for longer than timeouts.idleConn is not reused."""
    rig = await open_rig(models=(spec("alpha", timeouts=Timeouts(idle_s=1.0)),))
    await rig.exchange(chat())
    await rig.later(1.5)
    await rig.exchange(chat())

    assert len(rig.alpha.lines) == 2


async def test_what_the_kernel_does_not_grant_is_done_without(open_rig: OpenRig) -> None:
    """A keep-alive that the kernel refuses does not prevent the response."""
    rig = await open_rig(models=(spec("alpha", timeouts=Timeouts(keepalive_s=40_000.0)),))
    _, answered = await rig.exchange(chat())

    assert answered.status == 200


@pytest.mark.parametrize(("keepalive_s", "asks"), [(7.0, True), (None, False)])
async def test_the_kernel_asks_whether_the_other_side_is_there(
    open_rig: OpenRig, keepalive_s: float | None, asks: bool
) -> None:
    """timeouts.keepalive sets TCP keep-alive, or leaves it off."""
    rig: RelayRig = await open_rig(models=(spec("alpha", timeouts=Timeouts(keepalive_s=keepalive_s)),))
    await rig.exchange(chat())
    connection = rig.relay.context.pool.take(rig.alpha.address)
    assert connection is not None
    sock = connection._transport.get_extra_info("socket")

    assert bool(sock.getsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE)) is asks
    assert (sock.getsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPIDLE) == 7) is asks
    connection.close()
