"""A handover as JSON. The two processes may be of different versions of hotseat: unknown fields are ignored."""

from __future__ import annotations

import msgspec
from msgspec import Struct, field

from hotseat.errors import HotseatError
from hotseat.scheduling.handover import Handover

VERSION = 1
"""Increased when a reader of the version before would decide wrongly; new fields with defaults do not need that."""


class UnreadableHandover(HotseatError):
    """The next process cannot adopt the servers of this one."""

    code = "unreadable_handover"
    retry_helps = False


class _Envelope(Struct, frozen=True):
    version: int
    handover: Handover = field(default_factory=Handover)


_DECODER = msgspec.json.Decoder(_Envelope)


def to_json(handover: Handover) -> bytes:
    return msgspec.json.encode(_Envelope(VERSION, handover))


def from_json(text: bytes) -> Handover:
    """UnreadableHandover: it is of another version, or not a handover."""
    try:
        found = _DECODER.decode(text)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise UnreadableHandover(f"the handover of the previous process cannot be read: {error}") from error
    if found.version != VERSION:
        raise UnreadableHandover(f"the handover has version {found.version}, and this hotseat reads {VERSION}")
    return found.handover
