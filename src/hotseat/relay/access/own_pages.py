"""PURE: leads a browser from a page of a model server under our address to the same page at LABEL.localhost.

There it is at the root of an origin of its own: its paths and its storage work, and its requests to us are those of any
foreign page.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from hotseat.catalog.spec import ModelSpec
from hotseat.relay.access.authority import LOCALHOST, LOOPBACK, parsed
from hotseat.relay.routing.model_name import COMFYUI, MODEL_IN_URL, UPSTREAM

if TYPE_CHECKING:
    from hotseat.catalog.catalog import Catalog
    from hotseat.relay.http.request_head import RequestHead
    from hotseat.relay.routing.model_name import Destination


def moved(head: RequestHead, destination: Destination, catalog: Catalog) -> bytes | None:
    """The complete redirect; None if there is no such page, or the browser may resolve the name to another machine."""
    here = parsed(head.known.get(b"host", b""))
    if here is None or here.name not in LOOPBACK or not head.is_navigation or not _is_below_name(head, destination):
        return None
    if not isinstance(named_model := destination.named_model, ModelSpec):
        return None
    label, port = catalog.labels.of_model[named_model.name], "" if here.port is None else f":{here.port}"
    # Without a scheme: it stays that of the request, which a proxy may have changed.
    address = f"//{label}{LOCALHOST}{port}".encode() + destination.target
    head_lines = b"HTTP/1.1 307 Temporary Redirect\r\nLocation: %b\r\nCache-Control: no-store\r\n" % address
    return head_lines + b"Content-Length: 0\r\n\r\n"


def _is_below_name(head: RequestHead, destination: Destination) -> bool:
    return destination.kind is MODEL_IN_URL and head.target.startswith((UPSTREAM, COMFYUI))
