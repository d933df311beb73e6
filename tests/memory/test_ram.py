"""The machine's memory: real processes that take real memory, and fake machines for limits and old kernels."""

from __future__ import annotations

import os
import subprocess
import sys
from contextlib import contextmanager
from typing import TYPE_CHECKING

import pytest
from tests.support.machines import GiB, KiB, MiB, write
from tests.support.waiting import eventually

from hotseat.identifiers import DeviceName
from hotseat.memory.machine import Machine
from hotseat.memory.measurement import DeviceReading, Use
from hotseat.memory.ram import Ram, resident, share_of, use_of_tree

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

SLACK = 40 * MiB
"""For an interpreter and its libraries."""

TAKES_MEMORY = """
import mmap, os, sys
anonymous, file, workers = int(sys.argv[1]), sys.argv[2], int(sys.argv[3])
block = mmap.mmap(-1, anonymous, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
block.write(b"x" * anonymous)
with open(file, "rb") as weights:
    mapped = mmap.mmap(weights.fileno(), 0, prot=mmap.PROT_READ)
for _ in range(workers):
    if not os.fork():
        break
touched = sum(mapped[at] for at in range(0, len(mapped), 4096)) + sum(block[at] for at in range(0, anonymous, 4096))
print("x", end="", flush=True)
sys.stdin.read()
"""


@contextmanager
def taking(anonymous: int, weights: Path, workers: int = 0) -> Iterator[int]:
    """The pid of a process that holds so much memory and maps the file while the block runs."""
    command = [sys.executable, "-c", TAKES_MEMORY, str(anonymous), str(weights), str(workers)]
    child = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    assert child.stdin
    assert child.stdout
    with child:
        assert child.stdout.read(1 + workers) == b"x" * (1 + workers)
        yield child.pid
        child.stdin.close()
        child.stdout.read()  # until the last worker is gone


@pytest.fixture
def weights(tmp_path: Path) -> Path:
    path = tmp_path / "weights"
    path.write_bytes(bytes(100 * MiB))
    return path


def test_anonymous_and_mapped_memory_are_distinguished(weights: Path) -> None:
    """A process with 150 MiB of its own and 100 MiB of mapped weights takes that much of each."""
    with taking(150 * MiB, weights) as pid:
        use = Machine({DeviceName("ram"): Ram()}).sample([pid]).processes[pid][DeviceName("ram")]

    assert 150 * MiB <= use.anonymous < 150 * MiB + SLACK
    assert 100 * MiB <= use.file_backed < 100 * MiB + SLACK


def test_workers_that_share_memory_count_it_once(weights: Path) -> None:
    """Three forks of a process take little more than one, though all pages are resident in each."""
    with taking(150 * MiB, weights, workers=2) as pid:
        use = Machine({DeviceName("ram"): Ram()}).sample([pid]).processes[pid][DeviceName("ram")]
        alone = resident(pid)

    assert 150 * MiB <= use.anonymous < 150 * MiB + SLACK
    assert 100 * MiB <= use.file_backed < 100 * MiB + SLACK
    assert alone.total >= 250 * MiB


def test_memory_that_workers_exchange_is_their_own(proc: Path) -> None:
    """Shared memory without a file cannot be dropped: it is anonymous, and each process has its share of it."""
    for pid in (40, 41):
        write(proc / f"{pid}/status", "RssAnon:\t100000 kB\nRssFile:\t70000 kB\nRssShmem:\t60000 kB\n")
        write(proc / f"{pid}/smaps_rollup", "Pss_Anon:  80000 kB\nPss_File:  35000 kB\nPss_Shmem:  30000 kB\n")

    assert use_of_tree([40, 41], proc) == Use(2 * 110_000 * KiB, 2 * 35_000 * KiB)


def free(ram: Ram) -> int:
    seen = ram.read()
    assert seen
    return seen.free


def test_free_memory_falls_when_somebody_takes_it(weights: Path) -> None:
    """A process's memory is used while it runs; the machine's own figures agree."""
    ram = Ram()

    def falls() -> bool:
        before = free(ram)
        with taking(600 * MiB, weights):
            return before - free(ram) > 300 * MiB

    eventually(falls)  # other programs come and go: at some moment none of them frees as much
    now = ram.read()

    assert now
    assert 0 < now.free < now.total <= os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")


def test_a_process_that_is_gone_takes_nothing() -> None:
    """It may end between the listing and the measurement."""
    child = subprocess.Popen(["true"])
    child.wait()

    assert use_of_tree([child.pid]) == Use()
    assert share_of(child.pid) is None


def test_where_sharing_is_unknown_every_process_counts(proc: Path) -> None:
    """Another user's processes show their counters only."""
    for pid in (40, 41):
        write(proc / f"{pid}/status", "Name:\tserver\nRssAnon:\t  100000 kB\nRssFile:\t 50000 kB\nRssShmem:\t 1 kB\n")

    assert use_of_tree([40, 41], proc) == Use(2 * 100_001 * KiB, 2 * 50_000 * KiB)


MEMINFO = f"MemTotal:  {64 * MiB} kB\nMemFree:   {MiB} kB\nMemAvailable:  {48 * MiB} kB\nHugePages_Total:  0\n"


def test_files_get_no_memory_that_processes_have_mapped(proc: Path, tmp_path: Path) -> None:
    """The kernel would reclaim it, and a running model would read its weights again. A twentieth of all is left."""
    write(proc / "meminfo", MEMINFO + f"Mapped:  {20 * MiB} kB\n")
    ram = Ram(proc, tmp_path / "no cgroups")
    assert ram.available_for_cache() == 28 * GiB - 64 * GiB // 20
    write(proc / "meminfo", MEMINFO + f"Mapped:  {46 * MiB} kB\n")
    assert ram.available_for_cache() == 0
    write(proc / "meminfo", "")

    assert ram.available_for_cache() == 0


def add_group(cgroups: Path, name: str, limit: str, current: int, cache: int) -> None:
    write(cgroups / name / "memory.max", f"{limit}\n")
    write(cgroups / name / "memory.current", f"{current}\n")
    write(
        cgroups / name / "memory.stat", f"anon 5\nfile {cache}\ninactive_file {cache // 2}\nactive_file {cache // 2}\n"
    )


def test_a_container_has_what_its_group_may_take(proc: Path, tmp_path: Path) -> None:
    """In a container with its own namespace the limit is at the root; its page cache counts as free."""
    write(proc / "meminfo", MEMINFO)
    write(proc / "self/cgroup", "0::/\n")
    add_group(tmp_path / "cgroup", "", str(16 * GiB), 12 * GiB, 8 * GiB)

    assert Ram(proc, tmp_path / "cgroup").read() == DeviceReading(16 * GiB, 12 * GiB)


def test_the_tightest_group_above_us_binds(proc: Path, tmp_path: Path) -> None:
    """A slice may allow less than the service in it."""
    write(proc / "meminfo", MEMINFO)
    write(proc / "self/cgroup", "1:name=systemd:/x\n0::/big.slice/hotseat.service\n")
    add_group(tmp_path / "cgroup", "big.slice", str(20 * GiB), 18 * GiB, 0)
    add_group(tmp_path / "cgroup", "big.slice/hotseat.service", str(40 * GiB), GiB, 0)

    assert Ram(proc, tmp_path / "cgroup").read() == DeviceReading(20 * GiB, 2 * GiB)


def test_without_limits_the_machine_is_all_there_is(proc: Path, tmp_path: Path) -> None:
    """`max` is no limit, and neither is a kernel without control groups."""
    write(proc / "meminfo", MEMINFO)
    write(proc / "self/cgroup", "0::/hotseat.service\n")
    add_group(tmp_path / "cgroup", "hotseat.service", "max", GiB, 0)

    assert Ram(proc, tmp_path / "cgroup").read() == DeviceReading(64 * GiB, 48 * GiB)
    assert Ram(proc, tmp_path / "none").read() == DeviceReading(64 * GiB, 48 * GiB)


def test_a_machine_that_does_not_tell_is_unknown(tmp_path: Path) -> None:
    """Without meminfo there is no figure and no error."""
    assert Ram(tmp_path, tmp_path).read() is None
