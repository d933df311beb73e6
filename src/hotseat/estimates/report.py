"""An estimate as a list of items: what each part is, its size, where it is and what backs it."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import TYPE_CHECKING

from hotseat.errors import HotseatError

if TYPE_CHECKING:
    from collections.abc import Iterator

    from hotseat.identifiers import Bytes


DRIVER: Bytes = 512 << 20
"""What a driver takes on each device that a server uses, which estimates do not include."""


class CannotEstimate(HotseatError):
    """The files or the command line do not say enough; the message says what is missing."""

    code = "cannot_estimate"
    status = 422
    retry_helps = False


class Where(Enum):
    DEVICE = "device"
    HOST = "host"


class Kind(Enum):
    WEIGHTS = "weights"
    KV = "kv"
    COMPUTE = "compute"
    MMPROJ = "mmproj"
    DRAFT = "draft"
    OVERHEAD = "overhead"


class Backing(Enum):
    ANONYMOUS = "anonymous"
    """Cannot be reclaimed while the server runs."""
    MAPPED = "mapped"
    """Pages of a file: shared between servers of the same file, and slow to use once the kernel has dropped them."""
    READ_ONCE = "read once"
    """Pages of a file that are only needed to load: resident while memory is free, and never needed again."""


@dataclass(frozen=True, slots=True)
class Line:
    what: str
    size: Bytes
    kind: Kind
    where: Where = Where.HOST
    backing: Backing = Backing.ANONYMOUS


@dataclass(frozen=True, slots=True)
class Estimate:
    lines: tuple[Line, ...]
    notes: tuple[str, ...] = ()
    """What the estimate does not cover, in whole sentences."""
    device_share: float | None = None
    """The share of each device that the server takes regardless of the estimate; None: it takes what it needs."""

    def needed(self, where: Where) -> Bytes:
        """What the server needs to run well: everything except pages that are only read to load."""
        return sum(line.size for line in self._at(where) if line.backing is not Backing.READ_ONCE)

    @property
    def per_further_device(self) -> Bytes:
        """What each device after the first costs, if the server spreads the model: its own buffers and the driver."""
        if self.device_share is not None or not self.needed(Where.DEVICE):
            return 0
        return DRIVER + sum(line.size for line in self._at(Where.DEVICE) if line.kind is Kind.COMPUTE)

    def backed(self, where: Where, *backings: Backing) -> Bytes:
        return sum(line.size for line in self._at(where) if line.backing in backings)

    def _at(self, where: Where) -> Iterator[Line]:
        return (line for line in self.lines if line.where is where)
