"""PURE: names of hosts, and whether one is this host's, if a record with that name is in the store already.

An address does not show that: a configuration that is copied to another machine contains it. So each host keeps a
random token in its state directory, and its record has a hash of it.
"""

from __future__ import annotations

import hashlib
import re
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from hotseat.fleet.records import HostRecord
    from hotseat.identifiers import HostName

DIGITS = 32
_HOST_NAME = re.compile(r"[A-Za-z0-9_-]+(?:\.[A-Za-z0-9_-]+)*")
LONGEST_NAME = 253


def is_host_name(name: str) -> bool:
    return len(name) <= LONGEST_NAME and bool(_HOST_NAME.fullmatch(name))


def without_digits(name: str) -> str:
    """Equal for names that are numbered alike, as gpu7 and gpu12."""
    return re.sub(r"[0-9]+", "", name)


def token_hash(token: str, name: HostName) -> str:
    """Readers of the store cannot find the token by it."""
    return hashlib.sha256(f"hotseat host\n{name}\n{token}".encode()).hexdigest()[:DIGITS]


def is_ours(holder: HostRecord, record: HostRecord, *, at_start: bool) -> bool:
    """Did this host write the record of `holder`? At its start, it may have done so before it was killed."""
    return holder.boot == record.boot or (at_start and _is_same_machine(holder, record))


def _is_same_machine(holder: HostRecord, record: HostRecord) -> bool:
    return holder.address == record.address and holder.token_hash == record.token_hash


def taken(holder: HostRecord | None, record: HostRecord) -> str:
    """Why the name is not ours; `holder` is None if its record cannot be decoded."""
    if holder is not None and holder.address == record.address:
        return (
            f'another host of the fleet is already named "{record.name}" and has the same address ({record.address}). '
            "If this host's configuration was copied from it, choose another fleet.name and fleet.address."
        )
    address = holder.address if holder else "unknown"
    return f'another host of the fleet is already named "{record.name}" (at {address}). Choose another fleet.name.'
