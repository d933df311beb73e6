"""Graphics memory per process, from the kernel's fdinfo of each descriptor on /dev/dri."""

from __future__ import annotations

from typing import TYPE_CHECKING

from hotseat.hardware.kernel import PROC, figures, open_files, text

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence
    from pathlib import Path

    from hotseat.hardware.device import Slot
    from hotseat.identifiers import Bytes


def memory_of(pids: Iterable[int], slot: Slot, regions: Sequence[str], proc: Path = PROC) -> Bytes:
    """What these processes hold of a card. A DRM client may be open under several descriptors; it counts once."""
    clients: dict[int, Bytes] = {}
    for fields in (figures(path) for pid in pids for path in on_card(pid, slot, proc)):
        client = fields.get("drm-client-id", 0)
        clients[client] = max(clients.get(client, 0), sum(held(fields, region) for region in regions))
    return sum(clients.values())


def on_card(pid: int, slot: Slot, proc: Path) -> Iterator[str]:
    for fd, name in open_files(pid, proc).items():
        path = f"{proc}/{pid}/fdinfo/{fd}"
        if name.startswith("/dev/dri/") and f"drm-pdev:\t{slot}" in text(path):
            yield path


def held(fields: dict[str, Bytes], region: str) -> Bytes:
    """Older kernels call `drm-resident-` `drm-memory-`."""
    return fields.get(f"drm-resident-{region}", fields.get(f"drm-memory-{region}", 0))
