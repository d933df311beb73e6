"""The cache of heads: exact matches only, under one configuration, and never where framing differs."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from tests.support.depth import by_depth
from tests.support.fake_launcher import catalog
from tests.support.relay_rig import HELLO, MODELS, chat, get, post, turns
from tests.support.transport import End
from tests.support.waiting import come_true

from hotseat.catalog.spec import BodyChanges
from hotseat.errors import HotseatError
from hotseat.fleet.proofs import FleetSecret, Signer
from hotseat.identifiers import HostName
from hotseat.relay.access.host_requests import said_in
from hotseat.relay.access.policy import Policy
from hotseat.relay.downstream.admission import HeadCache, NotAdmitted
from hotseat.relay.http.head_cache import LONGEST_KNOWN, MOST_KNOWN, HeadTemplate, Memory, split_length
from hotseat.relay.http.request_head import MOST_FIELDS, parse_request_head
from hotseat.scheduling.events import CatalogChanged
from hotseat.settings import Access, ApiKey, Fleet, Limits, Settings

if TYPE_CHECKING:
    from collections.abc import Iterable

    from tests.relay.conftest import OpenRig
    from tests.support.relay_rig import RelayRig
    from tests.support.transport import Message

    from hotseat.catalog.catalog import Catalog
    from hotseat.relay.downstream.admission import Admission

pytestmark = pytest.mark.uncounted

NAMED = b'{"model":"alpha"}'
START = b"POST /v1/x HTTP/1.1\r\nHost: box"
JSON = "Content-Type: application/json"
TWO_NAMES = "/v1/x?model=alpha"
KEYS = Access(api_keys=(ApiKey("secret"),))


@pytest.fixture
def recalled(rig: RelayRig, monkeypatch: pytest.MonkeyPatch) -> list[bool]:
    """For every head that came in one piece: was it known?"""
    answers: list[bool] = []
    memory = rig.relay.context.heads.known
    recall = memory.recall

    def noted(key: bytes) -> Admission | None:
        found = recall(key)
        answers.append(found is not None)
        return found

    monkeypatch.setattr(memory, "recall", noted)
    return answers


# Where the length is


@pytest.mark.parametrize(
    ("line", "number"),
    [
        (b"Content-Length: 5", 5),
        (b"content-length: 5", 5),
        (b"Content-Length: 0", 0),
        (b"Content-Length: 0005", 5),
        (b"Content-Length: " + b"9" * 18, int("9" * 18)),
    ],
)
@pytest.mark.parametrize("after", [b"", b"\r\nX-A: 1"])
def test_the_length_is_cut_out_wherever_it_stands(line: bytes, number: int, after: bytes) -> None:
    """Content-Length is removed from the cache key, and the number is returned."""
    head = START + b"\r\n" + line + after + b"\r\n\r\n"

    assert split_length(head) == (START + after + b"\r\n\r\n", number)


@pytest.mark.parametrize(
    "line",
    [
        b"Content-Length: +5",
        b"Content-Length: -5",
        b"Content-Length: 5 ",
        b"Content-Length:  5",
        b"Content-Length:5",
        b"Content-Length : 5",
        b"Content-Length: 5, 5",
        b"Content-Length: 0x5",
        b"Content-Length: 5_0",
        b"Content-Length: ",
        b"Content-Length: " + b"9" * 19,
        b"Content-Length: \xb2",
        b"CONTENT-LENGTH: 5",
        b"Content-length: 5",
        b"X-Content-Length: 5",
        b"X-A: Content-Length: 5",
        b" Content-Length: 5",
        b"X-A: 1\nContent-Length: 5",
        b"Transfer-Encoding: chunked",
    ],
)
def test_any_other_spelling_stays_where_it_is(line: bytes) -> None:
    """Any unusual spelling of Content-Length stays in the key."""
    head = START + b"\r\n" + line + b"\r\n\r\n"

    assert split_length(head) == (head, None)


@pytest.mark.parametrize("first", [b"Content-Length: 5", b"content-length: 5"])
@pytest.mark.parametrize("second", [b"Content-Length: 5", b"content-length: 6", b"Content-length: 5"])
def test_of_two_lengths_one_stays_and_is_part_of_what_is_compared(first: bytes, second: bytes) -> None:
    """Of two Content-Length lines, one stays in the key."""
    left, _ = split_length(START + b"\r\n" + first + b"\r\n" + second + b"\r\n\r\n")

    assert b"content-length" in left.lower()


# The same head once more


@given(before=st.sampled_from([b"", b"\r\nX-A: 1"]), behind=st.sampled_from([b"", b"\r\nX-B: 2"]), data=st.data())
def test_an_outline_finds_a_head_exactly_where_looking_it_up_would(
    before: bytes, behind: bytes, data: st.DataObject
) -> None:
    """The template matches exactly when the lookup does, for any number and any damage."""
    lines = START + before + b"\r\nContent-Length: 12" + behind + b"\r\n\r\n"
    number = data.draw(st.one_of(st.integers(0, 10**20).map(b"%d".__mod__), st.binary(max_size=4), st.just(b"007")))
    again = START + before + b"\r\nContent-Length: " + number + behind + b"\r\n\r\n"
    cut = data.draw(st.integers(0, len(again)))
    damaged = data.draw(st.sampled_from([again, again[:cut], again[:cut] + b"x" + again[cut:]]))
    end = damaged.find(b"\r\n\r\n") + 4
    key, length = split_length(damaged[:end])
    is_known = end >= 4 and length is not None and key == split_length(lines)[0]

    assert HeadTemplate(lines).found_in(damaged + b"body") == ((length, end) if is_known else None)


# What is kept


def test_a_memory_is_bounded() -> None:
    """The cache keeps a bounded number of heads, the newest among them."""
    memory: Memory[int] = Memory()
    for number in range(10 * MOST_KNOWN):
        memory.learn(b"%d" % number, number)
    kept = [number for number in range(10 * MOST_KNOWN) if memory.recall(b"%d" % number) is not None]

    assert 0 < len(kept) <= MOST_KNOWN
    assert kept[-1] == 10 * MOST_KNOWN - 1


def test_a_long_head_is_not_kept() -> None:
    """A head beyond the size limit is not cached."""
    memory: Memory[int] = Memory()
    memory.learn(b"a" * LONGEST_KNOWN, 1)
    memory.learn(b"a" * (LONGEST_KNOWN + 1), 2)

    assert memory.recall(b"a" * LONGEST_KNOWN) == 1
    assert memory.recall(b"a" * (LONGEST_KNOWN + 1)) is None


async def test_a_repeated_head_is_recognised_whatever_its_length(rig: RelayRig, recalled: list[bool]) -> None:
    """A repeated head is recognised with another Content-Length, and the body is the new one."""
    asked = [(await rig.exchange(chat(model)))[0] for model in ("alpha", "alpha")]
    asked.append((await rig.exchange(chat().replace(NAMED, NAMED + b"  ").replace(b": 17", b": 19")))[0])

    assert recalled == [False, True, True]
    assert [each.body for each in asked] == [NAMED, NAMED, NAMED + b"  "]
    assert [each["Content-Length"] for each in asked] == ["17", "17", "19"]


@pytest.mark.parametrize("empty", [post(b"", JSON, target=TWO_NAMES), get(TWO_NAMES, JSON, method="POST")])
async def test_a_head_without_a_body_says_nothing_of_one_with_a_body(rig: RelayRig, empty: bytes) -> None:
    """The model in a body counts even if the same head was cached without a body."""
    for _ in range(2):
        await rig.exchange(empty)
    client = await rig.send(post(b'{"model":"beta"}', JSON, target=TWO_NAMES))
    call = await rig.upstreams["beta"].call()
    await call.say(HELLO)

    assert (await client.message()).status == 200
    assert call.request.body == b'{"model":"beta"}'


@pytest.mark.parametrize("empty", [get("/", JSON), get("/", JSON, "Content-Length: 0")])
@pytest.mark.parametrize("is_same_client", [False, True])
async def test_a_head_with_a_body_says_nothing_of_one_without(
    rig: RelayRig, empty: bytes, is_same_client: bool
) -> None:
    """A request that only looks at the bare address takes no lease, even if one with a body did."""
    client = await rig.client()
    for _ in range(2):
        await client.send(get("/", JSON, "Content-Length: 17") + NAMED)
        await (await rig.alpha.call()).say(HELLO)
        await client.message()
    await (client if is_same_client else await rig.client()).send(empty)
    call = await rig.alpha.call()

    assert (call.request.body, rig.in_flight()) == (b"", 0)


CHUNKS = get("/v1/x", "Transfer-Encoding: chunked", method="POST") + b"11\r\n" + NAMED + b"\r\n0\r\n\r\n"
FRAMED_OTHERWISE = {
    "expect": post(NAMED, "Expect: 100-continue"),
    "old": post(NAMED, version="1.0"),
    "old, kept alive": post(NAMED, "Connection: keep-alive", version="1.0"),
    "chunks": CHUNKS,
    "an offer": post(NAMED, "Connection: Upgrade", "Upgrade: h2c"),
    "the last one": post(NAMED, "Connection: close"),
}


@pytest.mark.parametrize("request_", FRAMED_OTHERWISE.values(), ids=FRAMED_OTHERWISE.keys())
@pytest.mark.parametrize("cut", [None, -1, -10])
async def test_what_is_framed_or_answered_otherwise_is_so_whether_or_not_its_head_is_known(
    rig: RelayRig, recalled: list[bool], request_: bytes, cut: int | None
) -> None:
    """It arrives every time, also in two pieces, and is answered the same way every time."""
    answers = []
    for _ in range(3):
        client = await rig.send(request_[:cut])
        await turns()
        await client.send(request_[cut:] if cut else b"")
        call = await rig.alpha.call()
        await call.say(HELLO)
        while (answered := await client.message()).status != 200:
            pass
        answers.append([field for field in answered.fields if field[0] != "X-Request-Id"])

        assert call.request.body == NAMED
    assert recalled == [False, True, True]
    assert answers[0] == answers[1] == answers[2]


NEVER_LEARNED = {
    "odd spelling": post(NAMED).replace(b"Content-Length", b"content-Length"),
    "odd space": post(NAMED).replace(b"Content-Length: ", b"Content-Length:  "),
    "long": post(NAMED, f"X-Long: {'a' * LONGEST_KNOWN}"),
}


@pytest.mark.parametrize("request_", NEVER_LEARNED.values(), ids=NEVER_LEARNED.keys())
async def test_what_cannot_be_cut_out_or_is_long_is_never_learned(
    rig: RelayRig, recalled: list[bool], request_: bytes
) -> None:
    """Chunked requests and the like are parsed each time, and arrive complete."""
    for _ in range(3):
        asked, _ = await rig.exchange(request_)

        assert asked.body == NAMED
    assert recalled == [False] * 3


@pytest.mark.parametrize("line", [b"Content-Length: 17\r\n", b"Content-Length: 0\r\n", b"content-length: 28\r\n"])
async def test_a_known_head_of_chunks_with_a_length_is_refused_as_if_unknown(rig: RelayRig, line: bytes) -> None:
    """Of two framings the relay chooses none."""
    mixed = CHUNKS.replace(b"Transfer", line + b"Transfer", 1)
    unknown = await rig.refusal(mixed)
    for _ in range(2):
        await rig.exchange(CHUNKS)
    known = await rig.refusal(mixed)

    assert (known.status, known.raw) == (400, unknown.raw)
    assert rig.alpha.requests == 2


@pytest.mark.parametrize("blank", [b"\r\n", b"\r\n\r\n", b"\n", b"\n\r\n\r\n", b"\r\n\r\n\r\n"])
async def test_blank_lines_are_never_taken_for_a_head(rig: RelayRig, blank: bytes) -> None:
    """Requests after blank lines are each served as sent."""
    asked = [(await rig.exchange(blank + get(f"/{name}?model=alpha")))[0] for name in ("one", "two", "three")]
    client = await rig.send(blank)
    await turns()

    assert [each.first_line.split("?")[0] for each in asked] == ["GET /one", "GET /two", "GET /three"]
    assert rig.alpha.requests == 3
    client.hang_up()


async def test_a_length_before_the_first_line_is_refused(rig: RelayRig) -> None:
    """A Content-Length before the request line gets 400, even if the rest is cached."""
    await rig.exchange(b"\r\n" + chat())
    await rig.exchange(b"\r\n" + chat())
    refused = await rig.refusal(b"\r\nContent-Length: 17\r\n" + chat().replace(b"Content-Length: 17\r\n", b""))

    assert refused.status == 400
    assert rig.alpha.requests == 2


async def test_a_known_head_with_too_many_fields_is_refused(rig: RelayRig) -> None:
    """The request id counts as a field, although it is cut out of what is compared."""
    most = [f"X-{number}: 1" for number in range(MOST_FIELDS - 2)]  # beside the Host and the length
    for _ in range(2):
        await rig.exchange(post(NAMED, *most))

    assert (await rig.refusal(post(NAMED, *most, "X-Request-Id: abc-1"))).status == 431
    assert rig.alpha.requests == 2


# A known head with something else


ONE_LINE_MORE = {
    "a coding": b"Transfer-Encoding: chunked\r\n",
    "a coding in other letters": b"transfer-encoding: Chunked\r\n",
    "an unknown coding": b"Transfer-Encoding: xchunked\r\n",
    "the same length": b"Content-Length: 17\r\n",
    "another length": b"Content-Length: 3\r\n",
    "a length in small letters": b"content-length: 3\r\n",
    "a length in odd letters": b"CONTENT-LENGTH: 3\r\n",
    "a signed length": b"Content-Length: +3\r\n",
    "a list of lengths": b"Content-Length: 17, 17\r\n",
    "an empty length": b"Content-Length: \r\n",
    "a length before a colon": b"Content-Length : 3\r\n",
    "a folded length": b" Content-Length: 3\r\n",
    "a second host": b"Host: evil\r\n",
    "a bare line end": b"X-A: 1\n",
    "an expectation": b"Expect: 200-ok\r\n",
}


@pytest.mark.parametrize("where", ["before its length", "after its length", "before its host"])
@pytest.mark.parametrize("line", ONE_LINE_MORE.values(), ids=ONE_LINE_MORE.keys())
async def test_a_known_head_with_one_line_more_is_refused_as_if_unknown(rig: RelayRig, line: bytes, where: str) -> None:
    """A cached head with one forbidden line more gets the same error as an uncached one."""
    good, mark = chat(), {"before its length": b"Content-Length", "before its host": b"Host"}.get(where)
    mixed = good.replace(mark, line + mark, 1) if mark else good.replace(b"\r\n\r\n", b"\r\n" + line + b"\r\n", 1)
    unknown = await rig.refusal(mixed)
    for _ in range(3):
        await rig.exchange(good)
    known = await rig.refusal(mixed)

    assert known.raw == unknown.raw
    assert known.status in (400, 417, 501)
    assert known["Connection"] == "close"
    assert rig.alpha.requests == 3


@pytest.mark.parametrize("line", ONE_LINE_MORE.values(), ids=ONE_LINE_MORE.keys())
async def test_a_known_response_with_one_line_more_is_read_as_if_unknown(rig: RelayRig, line: bytes) -> None:
    """A cached response head with one forbidden line more is a 502, as if uncached."""
    if line.startswith((b"Host", b"Expect")):
        line = b"Content-Length: 5\r\n"
    good = HELLO.replace(b"Content", b"Server: x\r\nContent", 1)
    mixed = good.replace(b"Content", line + b"Content", 1)
    _, unknown = await rig.exchange(get(), mixed)
    for _ in range(3):
        await rig.exchange(get(), good)
    _, known = await rig.exchange(get(), mixed)

    assert known.raw == unknown.raw
    assert known.status == 502


async def test_a_known_head_with_a_body_above_the_limit_is_refused(open_rig: OpenRig) -> None:
    """A cached head with a length above the limit gets the same 413 as an uncached one."""
    rig = await open_rig(limits=Limits(json_body=100))
    large = chat().replace(b": 17", b": 101")
    unknown = await rig.refusal(large)
    for _ in range(2):
        await rig.exchange(chat())
    client = await rig.send(large)
    known = await client.message()

    assert (known.status, known.raw) == (413, unknown.raw)
    assert await client.end() is End.CLOSED
    assert rig.alpha.requests == 2


@pytest.mark.parametrize("digits", [b"9" * 18, b"9" * 19, b"9" * 30, b"0" * 20 + b"17"])
async def test_a_known_head_with_an_absurd_length_is_refused(rig: RelayRig, digits: bytes) -> None:
    """A cached head with an absurd length gets the same error as an uncached one."""
    absurd = chat().replace(b": 17", b": " + digits)
    unknown = await rig.refusal(absurd)
    await rig.exchange(chat())
    known = await rig.refusal(absurd)

    assert known.raw == unknown.raw
    assert known.status in (400, 413)


async def test_all_known_bodies_together_have_a_limit(rig: RelayRig, monkeypatch: pytest.MonkeyPatch) -> None:
    """The total memory limit applies to bodies with cached heads."""
    monkeypatch.setattr("hotseat.relay.downstream.limits.MOST_IN_MEMORY", 100_000)
    body = b'{"model":"slow","x":"%b"}' % (b"a" * 60_000)
    learning = await rig.send(post(body))
    await come_true(lambda: rig.waiting() == 1)
    learning.hang_up()
    await come_true(lambda: rig.waiting() == 0)
    first = await rig.send(post(body))
    await come_true(lambda: rig.waiting() == 1)
    second = await rig.send(post(body))

    assert (await second.message()).status == 429
    first.hang_up()


# One configuration


def reload(rig: RelayRig, access: Access) -> None:
    rig.relay.context.policy = Policy(Settings(access=access))


async def test_keys_that_are_asked_for_now_are_asked_of_everybody(rig: RelayRig) -> None:
    """After a reload that adds keys, cached heads without a key get 401."""
    for _ in range(3):
        await rig.exchange(chat())
    reload(rig, KEYS)
    refused = [await rig.refusal(chat()) for _ in range(3)]

    assert [each.status for each in refused] == [401] * 3
    assert rig.alpha.requests == 3


async def test_a_request_that_began_before_a_reload_teaches_nothing_after_it(rig: RelayRig) -> None:
    """A request that began before the reload is served, but its head is not cached."""
    client = await rig.send(chat()[:-1])
    await come_true(lambda: rig.relay.context.bodies.in_memory)
    reload(rig, KEYS)
    await client.send(chat()[-1:])
    await (await rig.alpha.call()).say(HELLO)
    served = await client.message()

    assert served.status == 200
    assert (await rig.refusal(chat())).status == 401
    assert (await rig.refusal(chat())).status == 401


async def test_a_key_that_is_no_longer_valid_is_refused(open_rig: OpenRig) -> None:
    """A cached head with a removed key gets 401."""
    rig = await open_rig(access=KEYS)
    request = chat("alpha", "Authorization: Bearer secret")
    for _ in range(2):
        await rig.exchange(request)
    reload(rig, Access(api_keys=(ApiKey("other"),)))

    assert (await rig.refusal(request)).status == 401


async def test_a_host_that_is_no_longer_allowed_is_refused(open_rig: OpenRig) -> None:
    """A cached head with a Host that is no longer allowed gets 403."""
    rig = await open_rig(access=Access(allowed_hosts=("good.example",)))
    request = chat().replace(b"Host: box", b"Host: good.example")
    for _ in range(2):
        await rig.exchange(request)
    reload(rig, Access(allowed_hosts=("other.example",)))

    assert (await rig.refusal(request)).status == 403


async def test_a_model_that_is_gone_is_not_served(rig: RelayRig) -> None:
    """A cached URL of a removed model gets 404."""
    for _ in range(2):
        await rig.exchange(get("/upstream/alpha/slots"))
    rig.dispatcher.tell(CatalogChanged(catalog(*(spec for spec in MODELS if spec.name != "alpha"))))
    refused: list[Message] = [await rig.refusal(get("/upstream/alpha/slots")) for _ in range(2)]

    assert [each.status for each in refused] == [404, 404]


async def test_a_model_whose_requests_are_now_changed_gets_changed_ones(rig: RelayRig) -> None:
    """After a changed catalog, cached heads use the model's new settings."""
    target = "/upstream/alpha/v1/x"
    for _ in range(2):
        await rig.exchange(post(NAMED, target=target))
    changed = replace(MODELS[0], changes=BodyChanges(model_name="other"))
    rig.dispatcher.tell(CatalogChanged(catalog(changed, *MODELS[1:])))
    asked = [(await rig.exchange(post(NAMED, target=target)))[0] for _ in range(2)]

    assert [each.body for each in asked] == [b'{"model":"other"}'] * 2


async def test_a_forwarded_head_is_made_for_its_address(rig: RelayRig) -> None:
    """Equal heads for two models get each server's own Host."""
    await rig.exchange(chat())
    await rig.exchange(chat())
    client = await rig.send(chat("beta"))
    call = await rig.upstreams["beta"].call()
    await call.say(HELLO)
    await client.message()

    assert call.request["Host"] == f"127.0.0.1:{rig.upstreams['beta'].address.port}"
    assert (await rig.exchange(chat()))[0]["Host"] == f"127.0.0.1:{rig.alpha.address.port}"


# Warm as cold

SECRET = "between-us-hosts"
HERE = HostName("here")
FLEET = Settings(limits=Limits(json_body=20, body=30), fleet=Fleet(("nats://x",), HERE, secrets=(SECRET,)))
PROVEN = b"1763500000000 0123456789abcdef-1 " + b"a" * 64
"""The form of a proof; a client may send one, and it proves nothing."""
VALID = b"0 0-0 a"
"""Stands for a proof of a fleet's host, which is valid for one head and once: each use gets a new one."""
BY_HOST = (b"hotseat-from: a", b"hotseat-client: ann", b"hotseat-role: operate", b"hotseat-model: alpha")
OF_HOST = [*BY_HOST, b"hotseat-proof: " + VALID]
USUAL_LINES = [
    b"Content-Length: 17", b"content-length: 0", b"Content-Length: 25", b"Content-Length: 35",
    b"Content-Type: application/json", b"Content-Type: multipart/form-data; boundary=b", b"X-Request-Id: abc-1",
    b"hotseat-proof: " + VALID, *BY_HOST,
    b"traceparent: 00-%b-%b-01" % (b"a" * 32, b"b" * 16), b"hotseat-proof: " + PROVEN, b"X-A: 1",
    b"Connection: Upgrade", b"Upgrade: websocket", b"Transfer-Encoding: chunked",
]  # fmt: skip
PIECES = [
    b"\n", b"\r", b"\r\n", b" ", b"\t", b"\0", b":", b"a", b"\nContent-Length: 5", b"a\nContent-Length: 5",
    b"\r\nhotseat-proof: a", b"\r\nhotseat-proof: a\nContent-Length: 5", b"\r\nX-Request-Id: other",
    *(b"\r\n" + line for line in USUAL_LINES),
]  # fmt: skip


UPGRADE = (b"Connection: Upgrade", b"Upgrade: websocket")


NEARLY_FULL = [b"X-A: 1"] * (MOST_FIELDS - 1)  # and the Host


def head_of(method: bytes, lines: Iterable[bytes]) -> bytes:
    return b"\r\n".join([method + b" /v1/x?model=alpha HTTP/1.1", b"Host: box", *lines, b"", b""])


@st.composite
def mutated(draw: st.DrawFn) -> tuple[bytes, bytes]:
    """A head that may be served, and another one that differs in lines or in a few bytes."""
    method, some = draw(st.sampled_from([b"GET", b"POST"])), st.lists(st.sampled_from(USUAL_LINES), max_size=4)
    lines = draw(some) + draw(st.sampled_from([[], OF_HOST]))
    kept = [line for line in lines if draw(st.booleans())]
    first, second = head_of(method, lines), head_of(method, draw(st.permutations(kept + draw(some))))
    second = draw(st.sampled_from([first, second]))
    for _ in range(draw(st.integers(0, 2))):
        ends = [place for place in range(len(second) - 3) if second.startswith(b"\r\n", place)]
        place = draw(st.sampled_from(ends) | st.integers(0, len(second) - 4))
        second = second[:place] + draw(st.sampled_from(PIECES)) + second[place + draw(st.integers(0, 1)) :]
    end = second.find(b"\r\n\r\n") + 4
    return first, second[:end] if end >= 4 else second + b"\r\n\r\n"


@example((head_of(b"POST", []), head_of(b"POST", [b"hotseat-proof: a\nContent-Length: 5"])))
@example((head_of(b"GET", [*UPGRADE, b"Content-Length: 0"]), head_of(b"GET", UPGRADE)))
@example((head_of(b"POST", [b"Content-Length: 25"]), head_of(b"POST", [b"Content-Length: 35"])))
@example((head_of(b"POST", [b"Content-Length: 17", JSON.encode()]), head_of(b"POST", [JSON.encode()])))
@example((head_of(b"POST", NEARLY_FULL), head_of(b"POST", [*NEARLY_FULL, b"X-Request-Id: abc-1"])))
@example((head_of(b"POST", OF_HOST), head_of(b"POST", OF_HOST)))
@example((head_of(b"POST", OF_HOST), head_of(b"POST", [*OF_HOST[:-1], b"hotseat-proof: " + PROVEN])))
@settings(max_examples=by_depth(300, 10_000))
@given(mutated())
def test_a_head_means_the_same_whatever_came_before(heads: tuple[bytes, bytes]) -> None:
    """What is served, read or refused without the cache is so with it, with a fleet host's valid proof too."""
    models, host = catalog(*MODELS), Signer(FleetSecret([SECRET]))
    used, unused = Policy(FLEET), Policy(FLEET)  # each accepts a proof once
    cold, warm = HeadCache(unused, models), HeadCache(used, models)
    for _ in range(2):
        _meaning(warm, _proven(heads[0], host), used, models)
    lines = _proven(heads[1], host)

    assert _meaning(warm, lines, used, models) == _meaning(cold, lines, unused, models)


def _proven(lines: bytes, host: Signer) -> bytes:
    try:
        said = said_in(parse_request_head(lines))
    except HotseatError:
        return lines
    return lines.replace(VALID, host.proof(HERE, said))


CUT_OUT = (b"content-length", b"x-request-id", b"traceparent", b"hotseat-proof")
"""Fields that requests with the same admission may have with other values: what is theirs is returned beside it."""


def _meaning(cache: HeadCache, lines: bytes, policy: Policy, models: Catalog) -> object:
    try:
        admission, length, request_id, trace = cache.admission(lines, policy, models)
    except NotAdmitted as refused:
        return str(refused.outcome)
    head, destination = admission.head, admission.destination
    framing = (head.method, head.chunked, head.keep_alive, head.is_websocket)
    fields = [(name, value) for name, value in head.fields if name.lower() not in CUT_OUT]
    known = {name: value for name, value in head.known.items() if name not in CUT_OUT}
    read = (fields, known, head.target, head.http10, head.options, head.boundary, head.id_header, head.label)
    body = (admission.most_bytes, admission.may_spool, admission.names_in_json)
    return (
        framing,
        length or None,
        request_id,
        trace,
        read,
        body,
        destination,
        destination.rule,
        admission.verdict,
        admission.said,
    )
