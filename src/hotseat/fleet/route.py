"""The result of placement: which host serves a request."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, TypeAlias

if TYPE_CHECKING:
    from hotseat.identifiers import Address, HostName


@dataclass(frozen=True, slots=True)
class OtherHost:
    """Another host. Its address is the same object as long as the host is there."""

    host: HostName
    address: Address


class ThisHost:
    """This host serves it."""


THIS_HOST: Final = ThisHost()
Route: TypeAlias = OtherHost | ThisHost
