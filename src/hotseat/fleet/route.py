"""The result of placement: which host serves a request."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, TypeAlias

from msgspec import Struct

if TYPE_CHECKING:
    from hotseat.identifiers import Address, HostName


class OtherHost(Struct, frozen=True):
    """Another host. Its address is the same object as long as the host is there."""

    host: HostName
    address: Address


class ThisHost:
    """This host serves it."""


THIS_HOST: Final = ThisHost()
Route: TypeAlias = OtherHost | ThisHost
