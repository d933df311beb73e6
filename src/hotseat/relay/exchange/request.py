"""A received request: head, destination, body."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from msgspec import structs

from hotseat.errors import ClientError, Forbidden, TooLarge, UnsupportedEncoding
from hotseat.relay.http.body import names_one_model
from hotseat.relay.http.json_bodies import SMALL, may_be_object, rewrite_json
from hotseat.relay.routing.model_name import model_and_members, model_in_json, must_name_model, with_model_in_query
from hotseat.settings import MiB
from hotseat.tracing.traceparent import NAME as TRACEPARENT

if TYPE_CHECKING:
    from hotseat.activity.usage import KeyUse
    from hotseat.catalog.named_models import RemoteModel
    from hotseat.catalog.spec import BodyChanges
    from hotseat.identifiers import Bytes, ClientId, Instant
    from hotseat.ollama.requests import Translation
    from hotseat.relay.access.api_keys import Verdict
    from hotseat.relay.downstream.admission import Admission
    from hotseat.relay.http.body import Body
    from hotseat.relay.http.json_bodies import Members
    from hotseat.relay.routing.model_name import Destination
    from hotseat.tracing.traceparent import TraceContext
    from hotseat.tracing.tracer import Tracer

MOST_UNDECLARED: Bytes = 16 * MiB
"""Limit for reading JSON back into memory that was not declared as JSON and therefore went to disk."""
UNSURE = "the body is compressed or is an ambiguous form, so it may name a model other than"


class Request:
    __slots__ = (
        "admission",
        "began",
        "body",
        "client",
        "destination",
        "head",
        "id",
        "key_use",
        "members",
        "trace",
        "traceparent",
        "translation",
        "verdict",
    )

    def __init__(
        self,
        request_id: bytes,
        admission: Admission,
        body: Body,
        client: ClientId,
        began: Instant,
        traceparent: bytes = b"",
    ) -> None:
        self.id = request_id
        self.admission = admission
        """Usually shared with other requests that have the same head."""
        # Copied, because every request reads them several times.
        self.head = admission.head
        self.destination = admission.destination
        self.verdict = admission.verdict
        self.body = body
        self.client = client
        self.began = began
        self.key_use: KeyUse | None = None
        """Its entry in the usage of its key, reserved at its head; None if its body is small."""
        self.members: Members | None = None
        """Of a large JSON body, from reading its model until changing it; dropped while the request waits."""
        self.translation: Translation | None = None
        """How its response is translated; None if it is not."""
        self.traceparent = traceparent
        """Its client's, if that is valid; the one in `head` may be of another request."""
        self.trace: TraceContext | None = None
        """None: it is not traced, or was not sent to an upstream yet."""

    @property
    def must_name_model(self) -> bool:
        return must_name_model(self.head, self.destination)

    def named_model(self) -> str | None:
        """The model named in the body; raises if it must name one and cannot be read."""
        if self.admission.names_in_json:
            return self._model_in(self.body.whole())
        if b"content-encoding" in self.head.known:
            self._refuse_compressed()
        if self.body.form is not None:
            return next((field.value for field in self.body.form.fields()), None)
        if self.body.is_spooled and (self.body.size > MOST_UNDECLARED or not self._begins_like_json()):
            return None
        try:
            return self._model_in(self.body.copied())
        except ClientError:
            if self.must_name_model:
                raise
            return None  # the body may be anything

    def _model_in(self, body: bytes) -> str | None:
        if len(body) <= SMALL:
            return model_in_json(body)
        model, self.members = model_and_members(body)
        return model

    def _refuse_compressed(self) -> None:
        coding = self.head.known[b"content-encoding"].lower()
        if coding != b"identity" and self.must_name_model:
            raise UnsupportedEncoding(
                f"the body is compressed ({coding.decode('latin-1')}), so its model cannot be read."
                " Send it uncompressed, or name the model in the URL with ?model=."
            )

    def change_body(self, changes: BodyChanges) -> None:
        """Apply the changes that the model's configuration requires; all other bytes stay as sent."""
        form = self.body.form
        if not self.body.size:
            return
        if form is None:
            self._change_json(changes)
        elif changes.model_name is not None:
            self.body.splice([(field.start, field.end) for field in form.fields()], changes.model_name.encode())

    def address_peer(self, remote: RemoteModel) -> None:
        """Put the peer's model name wherever the peer may look for it; raises for paths not sent to peers."""
        if not self.destination.rule.goes_to_peers:
            path = self.destination.target.partition(b"?")[0].decode("latin-1")
            raise Forbidden(f"{path} is not forwarded to peers: {remote.peer} is used for inference only")
        name = remote.changes.model_name
        assert name is not None
        is_ours = self.translation is not None
        if self.body.size and not is_ours and not names_one_model(self.head, self.body):
            raise UnsupportedEncoding(f"{UNSURE} {name}. Send JSON or a plain form to {remote.peer}.")
        target = with_model_in_query(self.destination.target, name, needs_one=not self._body_names_model())
        if target != self.destination.target:
            self.send_to(replace(self.destination, target=target))

    def send_to(self, destination: Destination) -> None:
        """Another destination than that of other requests with the same head."""
        self.destination = destination
        self.admission = self.admission.of_one_request(self.head, destination)

    def sent_by(self, verdict: Verdict) -> None:
        """Another sender than that of other requests with the same head, because the keys have changed since."""
        self.verdict = verdict
        self.admission = self.admission.of_one_request(self.head, self.destination)

    def _body_names_model(self) -> bool:
        """Does the body name the model, after `change_body` put the name there?"""
        if self.body.form is not None:
            return bool(self.body.form.fields())
        is_plain = self.translation is not None or b"content-encoding" not in self.head.known
        return self._begins_like_json() and is_plain

    def trace_by(self, tracer: Tracer) -> TraceContext:
        """Its place in a trace, the same each time."""
        if self.trace is None:
            self.trace = tracer.begin(self.traceparent or self.head.known.get(TRACEPARENT))
        return self.trace

    def ask_for_plain(self) -> None:
        """Remove Accept-Encoding: a response that began uncompressed must continue so."""
        fields = [(name, value) for name, value in self.head.fields if name.lower() != b"accept-encoding"]
        self.head = structs.replace(self.head, fields=fields)
        self.admission = self.admission.of_one_request(self.head, self.destination)

    def _change_json(self, changes: BodyChanges) -> None:
        if self.body.is_spooled:
            if not self._begins_like_json():
                return
            if self.body.size > MOST_UNDECLARED:
                text = f"the body looks like JSON and is larger than {MOST_UNDECLARED} bytes"
                raise TooLarge(f"{text}. Send it with `Content-Type: application/json`.")
        self.body.replace(rewrite_json(self.body.whole(), changes, self.members))

    def _begins_like_json(self) -> bool:
        return may_be_object(self.body.pieces_from(0) if self.body.is_spooled else self.body.whole())
