"""Request bodies that do not fit on the disk, or exceed their disk limit."""

from __future__ import annotations

import resource
from typing import TYPE_CHECKING

import pytest
from tests.support.fake_launcher import spec
from tests.support.relay_rig import HELLO, get, turns
from tests.support.waiting import come_true

from hotseat.catalog.spec import BodyChanges
from hotseat.relay.http.body import IN_MEMORY, Body
from hotseat.settings import Access, Limits

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.relay.conftest import OpenRig
    from tests.support.relay_rig import RelayRig
    from tests.support.transport import Wire


@pytest.fixture
def small_files() -> Iterator[None]:
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (IN_MEMORY, before[1]))
    yield
    resource.setrlimit(resource.RLIMIT_FSIZE, before)


def fill(body: Body) -> None:
    """In pieces that the file's buffer keeps."""
    for _ in range(1000):
        body.add(b"x" * 5_000)


@pytest.mark.usefixtures("small_files")
def test_a_body_that_could_not_be_kept_can_be_thrown_away() -> None:
    """A body that could not be written can be closed without another error."""
    body = Body(may_spool=True)
    with pytest.raises(OSError, match="File too large"):
        fill(body)

    body.close()


@pytest.mark.usefixtures("small_files")
async def test_an_upload_whose_last_bytes_do_not_fit_on_disk_is_answered(rig: RelayRig) -> None:
    """If the disk is full at the last bytes, the client gets 500 with the reason, and no lease is taken."""
    length = IN_MEMORY + 2_000
    client = await rig.send(get("/up?model=alpha", f"Content-Length: {length}", method="POST") + b"x" * IN_MEMORY)
    await come_true(lambda: rig.relay.context.bodies.in_memory == IN_MEMORY)
    for size in (1, 1_999):
        await client.send(b"x" * size)
        await turns()
    answered = await client.message()

    assert answered.status == 500
    assert b"cannot be stored on disk" in answered.body
    assert rig.in_flight() == 0


UPLOAD = 2 * IN_MEMORY


async def unfinished(rig: RelayRig, source: str, *fields: str) -> Wire:
    """An upload of which the last byte is missing."""
    client = await rig.client(source=source)
    head = get("/up?model=alpha", f"Content-Length: {UPLOAD}", *fields, method="POST")
    await client.send(head + b"x" * (UPLOAD - 1))
    return client


@pytest.mark.parametrize("is_known", [False, True])
async def test_all_uploads_together_have_a_limit(open_rig: OpenRig, is_known: bool) -> None:
    """An upload beyond limits.uploads gets 429, and a disconnect frees its share."""
    rig = await open_rig(limits=Limits(body=UPLOAD, uploads=2 * UPLOAD))
    if is_known:
        await rig.exchange(get("/up?model=alpha", "Content-Length: 1", method="POST") + b"x")
    first, second = [await unfinished(rig, f"127.0.0.{host}") for host in (1, 2)]
    await come_true(lambda: rig.relay.context.bodies.on_disk == 2 * (UPLOAD - 1))
    refused = await (await unfinished(rig, "127.0.0.3")).message()
    first.hang_up()
    await come_true(lambda: rig.relay.context.bodies.on_disk == UPLOAD - 1)
    third = await unfinished(rig, "127.0.0.3")
    for client in (second, third):
        await client.send(b"x")
        call = await rig.alpha.call()
        await call.say(HELLO)

    assert (refused.status, refused["Retry-After"]) == (429, "1")
    assert b"limits.uploads" in refused.body
    assert [(await client.message()).status for client in (second, third)] == [200, 200]


async def test_one_address_cannot_have_all_uploads(open_rig: OpenRig) -> None:
    """An address with half of limits.uploads gets 429 for the next upload; another address does not."""
    rig = await open_rig(limits=Limits(body=UPLOAD, uploads=2 * UPLOAD))
    await unfinished(rig, "127.0.0.1")
    await come_true(lambda: rig.relay.context.bodies.on_disk == UPLOAD - 1)
    refused = await (await unfinished(rig, "127.0.0.1")).message()
    other = await unfinished(rig, "127.0.0.2")
    await come_true(lambda: rig.relay.context.bodies.on_disk == 2 * (UPLOAD - 1))

    assert refused.status == 429
    assert not other.is_spoken_to


@pytest.mark.parametrize(("client", "is_refused"), [("127.0.0.9", True), ("", False)])
async def test_uploads_of_a_proxy(open_rig: OpenRig, client: str, is_refused: bool) -> None:
    """A proxy that names no client may have all uploads; a client has half, even one with a proxy's address."""
    access = Access(trusted_proxies=("127.0.0.0/8",), client_header="X-Client")
    rig = await open_rig(limits=Limits(body=UPLOAD, uploads=2 * UPLOAD), access=access)
    bodies = rig.relay.context.bodies
    await unfinished(rig, "127.0.0.1", f"X-Client: {client}")
    await come_true(lambda: bodies.on_disk == UPLOAD - 1)
    second = await unfinished(rig, "127.0.0.1", f"X-Client: {client}")
    await come_true(lambda: second.is_spoken_to or bodies.on_disk == 2 * (UPLOAD - 1))

    assert second.is_spoken_to is is_refused


async def test_an_upload_that_is_refused_as_it_is_changed_frees_its_space(open_rig: OpenRig) -> None:
    """An upload that was read back into memory and refused counts neither on disk nor in memory afterwards."""
    changed = spec("alpha", changes=BodyChanges(strip=("x",)))
    rig = await open_rig(models=(changed,), limits=Limits(body=UPLOAD, uploads=2 * UPLOAD))
    body = b'{"no end": '.ljust(UPLOAD, b"1")
    refused = await rig.refusal(get("/up?model=alpha", f"Content-Length: {UPLOAD}", method="POST") + body)

    assert refused.status == 400
    assert (rig.relay.context.bodies.on_disk, rig.relay.context.bodies.in_memory) == (0, 0)
