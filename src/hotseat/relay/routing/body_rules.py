"""PURE: what is done with a request's body, by its head and its destination."""

from __future__ import annotations

from typing import TYPE_CHECKING

from hotseat.catalog.named_models import Selector
from hotseat.relay.routing.model_name import MODEL_IN_BODY

if TYPE_CHECKING:
    from hotseat.catalog.named_models import NamedModel
    from hotseat.relay.http.request_head import RequestHead
    from hotseat.relay.routing.model_name import Destination


def must_stay_in_memory(head: RequestHead, destination: Destination) -> bool:
    """JSON that is read or changed is decoded as a whole; forms and opaque uploads can stay on disk."""
    is_changed = destination.named_model is not None and changes_bodies(destination.named_model)
    if destination.kind is not MODEL_IN_BODY and not is_changed:
        return False
    return head.boundary is None and (destination.target.startswith(b"/v1/") or head.is_json)


def changes_bodies(named_model: NamedModel) -> bool:
    """A selector's targets each get their own name."""
    return isinstance(named_model, Selector) or bool(named_model.changes)


def names_in_json(head: RequestHead, destination: Destination) -> bool:
    """Does it require a JSON body that names the model?"""
    is_plain = head.boundary is None and b"content-encoding" not in head.known
    return is_plain and destination.kind is MODEL_IN_BODY and must_name_model(head, destination)


def must_name_model(head: RequestHead, destination: Destination) -> bool:
    """Is an unreadable body the client's mistake? Not if the query names the model."""
    return head.method == b"POST" and destination.named is None and destination.target.startswith(b"/v1/")
