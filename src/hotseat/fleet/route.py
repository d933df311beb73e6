"""Which host serves a request, as those who decide it tell those who send it there."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, TypeAlias

if TYPE_CHECKING:
    from hotseat.identifiers import Address, HostName


@dataclass(frozen=True, slots=True)
class Elsewhere:
    """Another host. As long as it is there, its address is the same object."""

    host: HostName
    address: Address


class Here:
    """This host serves it."""


HERE: Final = Here()
Where: TypeAlias = Elsewhere | Here
