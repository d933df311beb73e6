"""The machine's RAM on Linux: /proc/meminfo, and the limits of our control group."""

from __future__ import annotations

from typing import TYPE_CHECKING

from hotseat.memory.kernel import PROC, SYS, figures, number, text
from hotseat.memory.measurement import DeviceReading, Sensors, Use

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence
    from pathlib import Path

    from hotseat.identifiers import Bytes

MARGIN = 20
"""One part in so many of all memory is left free."""
LARGE: Bytes = 64 << 20
"""Below this, shared pages are not worth counting."""


class Ram:
    label, has_own_memory, card_name = "this machine's RAM", True, None

    def __init__(self, proc: Path = PROC, cgroups: Path = SYS / "fs/cgroup") -> None:
        self._proc, self._cgroups = proc, cgroups

    def read(self) -> DeviceReading | None:
        """Free is what can be allocated without swapping, so most of the page cache counts as free."""
        fields = figures(self._proc / "meminfo")
        if "MemAvailable" not in fields:
            return None
        reading = DeviceReading(fields["MemTotal"], fields["MemAvailable"])
        for limit in limits(self._proc, self._cgroups):
            reading = reading.at_most(limit)
        return reading

    def available_for_cache(self) -> Bytes:
        """What files may take without evicting pages that processes map; 0 if the kernel does not say.

        The kernel counts mapped pages as available, since it can read them again. A running model would wait for that.
        """
        reading = self.read()
        if reading is None:
            return 0
        return max(0, reading.free - figures(self._proc / "meminfo").get("Mapped", 0) - reading.total // MARGIN)

    def taken_by(self, trees: Mapping[int, Sequence[int]]) -> Mapping[int, Use]:
        return {root: use_of_tree(pids, self._proc) for root, pids in trees.items()}

    def sensors(self) -> Sensors:
        return Sensors()


def use_of_tree(pids: Sequence[int], proc: Path = PROC) -> Use:
    """What these processes take together; a page that large ones among them share counts once."""
    uses = {pid: resident(pid, proc) for pid in pids}
    large = [pid for pid, use in uses.items() if use.total >= LARGE]
    if len(large) > 1:
        uses |= {pid: share for pid in large if (share := share_of(pid, proc))}
    return sum(uses.values(), Use())


def resident(pid: int, proc: Path = PROC) -> Use:
    """Every resident page, also shared ones. Reads counters, so it is cheap; empty if the process is gone."""
    fields = figures(f"{proc}/{pid}/status")
    return Use(fields.get("RssAnon", 0) + fields.get("RssShmem", 0), fields.get("RssFile", 0))


def share_of(pid: int, proc: Path = PROC) -> Use | None:
    """Shared pages are divided among their users. The kernel walks all pages: 15 ms for each GiB."""
    fields = figures(f"{proc}/{pid}/smaps_rollup")
    if "Pss_Anon" not in fields:  # another user's process, or a kernel before 5.4
        return None
    return Use(fields["Pss_Anon"] + fields["Pss_Shmem"], fields["Pss_File"])


def limits(proc: Path, cgroups: Path) -> Iterator[DeviceReading]:
    """Limit and free memory of our control group and each one above it (cgroup v2)."""
    own = next((line[3:] for line in text(proc / "self/cgroup").splitlines() if line.startswith("0::")), "/")
    folder = cgroups / own.lstrip("/")
    for group in (folder, *folder.parents):
        limit, current = number(group / "memory.max"), number(group / "memory.current")
        if limit is not None and current is not None:
            fields = figures(group / "memory.stat")
            cache = fields.get("active_file", 0) + fields.get("inactive_file", 0)
            yield DeviceReading(limit, limit - current + cache)
        if group == cgroups:
            return
