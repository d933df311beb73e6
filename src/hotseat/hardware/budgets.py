"""PURE: `devices: auto`, the default budget of each device."""

from __future__ import annotations

from typing import TYPE_CHECKING

from hotseat.identifiers import RAM

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

    from hotseat.hardware.measurement import DeviceReading
    from hotseat.identifiers import Bytes, DeviceName

RAM_KEPT = 8
"""One part in so many of the RAM is left to other programs."""
CARD_KEPT: Bytes = 256 << 20
"""Left free on a card, for what a server takes beyond its buffers and for the desktop."""


def budgets_of(seen: Mapping[DeviceName, DeviceReading], borrowers: Collection[DeviceName]) -> dict[DeviceName, Bytes]:
    """Each byte is budgeted once: cards with memory of their own and the RAM, or the one card that borrows the RAM."""
    own = {name: reading for name, reading in seen.items() if name not in borrowers and name != RAM}
    borrowed = next((name for name in seen if name in borrowers), None)
    if not own and borrowed is not None:
        return {borrowed: _without_share(seen[borrowed].total)}
    cards = {name: reading.total - CARD_KEPT for name, reading in own.items() if reading.total > CARD_KEPT}
    return {**cards, **({RAM: _without_share(seen[RAM].total)} if RAM in seen else {})}


def _without_share(total: Bytes) -> Bytes:
    return total - total // RAM_KEPT
