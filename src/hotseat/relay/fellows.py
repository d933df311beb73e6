"""Requests that another host of the fleet passed on.

They are believed where they bear the fleet's secret: that host has checked the client's key and says who asks. They are
served here or turned away, and never passed on again.
"""

from __future__ import annotations

from functools import lru_cache
from hmac import compare_digest
from typing import TYPE_CHECKING
from urllib.parse import quote, unquote

from hotseat.errors import Forbidden, HotseatError, NotHere, ShuttingDown, UnknownModel
from hotseat.relay.head import FLEET_SECRET, FOR_CLIENT, FOR_MODEL, FROM_HOST
from hotseat.relay.keys import Verdict
from hotseat.relay.naming import Destination, Road
from hotseat.settings import Role

if TYPE_CHECKING:
    from hotseat.catalog.catalog import Catalog
    from hotseat.relay.head import RequestHead
    from hotseat.relay.paths import PathTable
    from hotseat.settings import Fleet
    from hotseat.terms import ModelName

MOST_NAMES = 1024
UNDONE = (UnknownModel, ShuttingDown)
"""Refusals after which nothing was done for the request, so that another host may be asked."""


class Fellows:
    def __init__(self, fleet: Fleet | None) -> None:
        self._is_on = fleet is not None
        self._secret = fleet.secret.encode() if fleet is not None else b""

    def verdict(self, head: RequestHead) -> Verdict | None:
        """What a host may; None where a client asks. Without the secret it is refused, or it could go in circles."""
        host = head.known.get(FROM_HOST)
        if not self._is_on or host is None:
            return None
        presented = head.known.get(FLEET_SECRET, b"")
        if not presented or not compare_digest(presented, self._secret):  # two empty ones are equal
            raise Forbidden("another host passed this on, but its fleet.secret is not ours. Give all hosts the same.")
        name = host.decode("latin-1")
        return Verdict(role=Role.ADMIN, from_host=name, holder=f"host {name}")


def lines_for_fellow(me: str, secret: str, client: str) -> bytes:
    """What goes along with a request that is passed on."""
    said = {FROM_HOST: me, FOR_CLIENT: client, FLEET_SECRET: secret}
    return b"".join(b"%b: %b\r\n" % (name, value.encode("latin-1", "replace")) for name, value in said.items())


@lru_cache(MOST_NAMES)
def line_for_model(model: ModelName) -> bytes:
    """So that the next host need not find out again; what the path and the body say stays as it is."""
    return b"%b: %b\r\n" % (FOR_MODEL, quote(model).encode())


def road_for_fellow(head: RequestHead, catalog: Catalog, paths: PathTable) -> Destination | None:
    """Where the host that passed it on wants it to go; None where it leaves that to us."""
    model = head.known.get(FOR_MODEL)
    if model is None:
        return None
    lead = catalog.follow(unquote(model.decode("latin-1")))
    return Destination(Road.MODEL_IN_URL, head.target, lead, rule=paths.of_model(head.method, head.target))


def told_to_fellow(error: HotseatError, head: RequestHead) -> HotseatError:
    """The refusal as a host that passed the request on understands it."""
    if FROM_HOST in head.known and isinstance(error, UNDONE):
        return NotHere(error.message)
    return error
