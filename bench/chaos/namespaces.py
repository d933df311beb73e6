"""A network namespace for each host and each NATS server of a fleet, and rules that lose packets between them.

The run has network, mount and process namespaces of its own, and in these a bridge and one network namespace per
machine. So nothing of it is visible outside, and however it ends, the kernel removes its processes, links, rules and
names.
"""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, TypeAlias

from tests.support.ports import Machine
from tests.support.processes import all_pids

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

# The namespaces of the run itself

NEEDED = ("ip", "iptables-restore", "iptables-save", "mount", "setpriv", "unshare")
APART = (
    "setpriv", "--pdeathsig", "KILL", "--",
    "unshare", "--net", "--mount", "--pid", "--mount-proc", "--fork", "--kill-child", "--",
)  # fmt: skip
"""All processes of a run end with the one that started it, even if that is killed."""
TRIAL = """ip link add type bridge && ip link add type veth && iptables-restore <<END
*filter
-A INPUT -m statistic --mode random --probability 0.5 -j DROP
-A INPUT -p tcp -j REJECT --reject-with tcp-reset
COMMIT
END"""
REAPING = ("sh", "-c", '"$@"; exit $?', "sh")
"""Process 1 there: it collects what the death of a host leaves behind."""
OUTSIDE = "HOTSEAT_CHAOS_OUTSIDE"
"""An environment variable: the network namespace that the run was started in."""
FOLDER = "hotseat-namespaces-"


def own_namespace() -> str:
    return os.readlink("/proc/self/ns/net")


def is_inside() -> bool:
    return os.environ.get(OUTSIDE, own_namespace()) != own_namespace()


def obstacle() -> str:
    """Why there can be no namespaces; empty if there can."""
    if missing := [name for name in NEEDED if shutil.which(name) is None]:
        return f"--namespaces needs the programs {', '.join(missing)} (Debian: iproute2, iptables, util-linux)"
    if os.geteuid() != 0:
        return "--namespaces needs root"
    tried = subprocess.run([*APART, "sh", "-c", TRIAL], check=False, capture_output=True, text=True)
    said = " ".join(tried.stderr.split())
    return f"--namespaces does not work with this kernel or in this container: {said}" if tried.returncode else ""


def run_inside(options: Sequence[str]) -> int:
    """Run the program with these options in namespaces of its own; its temporary files go with it."""
    for left in Path(tempfile.gettempdir()).glob(f"{FOLDER}*"):
        if int(left.name.removeprefix(FOLDER)) not in all_pids():
            shutil.rmtree(left)
    folder = Path(tempfile.gettempdir(), f"{FOLDER}{os.getpid()}")
    folder.mkdir(mode=0o700)
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(128 + signal.SIGTERM))
    environment = {**os.environ, "TMPDIR": str(folder), OUTSIDE: own_namespace()}
    argv = [*APART, *REAPING, sys.executable, "-m", "bench.chaos", *options]
    try:
        process = subprocess.Popen(argv, env=environment)
        try:
            return process.wait()
        except BaseException:
            for first in Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text().split():
                os.kill(int(first), signal.SIGKILL)  # then the kernel ends all others, before `unshare` ends
            process.wait()
            raise
    finally:
        shutil.rmtree(folder)


# Which packets are lost

CLIENTS = "clients"
Pair: TypeAlias = "tuple[str, str]"
"""A sender and a receiver: machines, or the clients."""
DROP = "-j DROP"
REFUSE = "-p tcp -j REJECT --reject-with tcp-reset"
SOMETIMES = "-m statistic --mode random --probability 0.1 -j DROP"


def one_way(senders: Iterable[str], receivers: Iterable[str]) -> set[Pair]:
    """All pairs of a sender and another receiver."""
    to = list(receivers)
    return {(sender, receiver) for sender in senders for receiver in to if sender != receiver}


def both_ways(some: Sequence[str], others: Sequence[str]) -> set[Pair]:
    return one_way(some, others) | one_way(others, some)


def halves(hosts: Sequence[str], nats: Sequence[str]) -> set[Pair]:
    """The smaller half of the hosts has one NATS server, without a majority."""
    few = len(hosts) // 2
    return both_ways([*hosts[:few], *nats[:1]], [*hosts[few:], *nats[1:]])


SHAPES: Mapping[str, Callable[[list[str], list[str]], set[Pair]]] = {
    "a host hears nothing": lambda hosts, nats: one_way(hosts[1:] + nats, hosts[:1]),
    "a host is not heard": lambda hosts, nats: one_way(hosts[:1], hosts[1:] + nats),
    "a host is out of reach": lambda hosts, nats: both_ways(hosts[:1], hosts[1:]),
    "a host is cut off from NATS": lambda hosts, nats: both_ways(hosts[:1], nats),
    "a host is cut off from all": lambda hosts, nats: both_ways(hosts[:1], hosts[1:] + nats),
    "a host is cut off from clients": lambda hosts, nats: both_ways(hosts[:1], [CLIENTS]),
    "the fleet is cut in halves": halves,
    "NATS' leader is cut off from its cluster": lambda hosts, nats: both_ways(nats[:1], nats[1:]),
    "packets are lost": lambda hosts, nats: one_way(everyone := [*hosts, *nats, CLIENTS], everyone),
}
"""What is lost, of all hosts and all NATS servers: the first host is the one that is meant, the first server leads."""


def rules(lost: Iterable[Pair], verdict: str, addresses: Mapping[str, str]) -> dict[str, str]:
    """The rules of each receiver, for iptables-restore: its own packets never meet them."""
    receivers: dict[str, list[str]] = {}
    for sender, receiver in sorted(lost):
        receivers.setdefault(receiver, []).append(f"-A INPUT -s {addresses[sender]} {verdict}")
    return {receiver: restored(lines) for receiver, lines in receivers.items()}


def restored(lines: Iterable[str]) -> str:
    """Replaces all earlier rules."""
    return "\n".join(["*filter", *lines, "COMMIT", ""])


def matched(saved: str) -> int:
    """How many packets the rules have matched, by what `iptables-save -c` prints."""
    return sum(int(line[1:].partition(":")[0]) for line in saved.splitlines() if line.startswith("["))


# The machines

SUBNET, BRIDGE, FIRST = "10.203.0", "bridge", 11


class Network:
    """Machines at one bridge; this process, where the clients are, is at the bridge itself."""

    def __init__(self, names: Sequence[str], folder: Path) -> None:
        self._numbers = {name: FIRST + n for n, name in enumerate(names)}
        self.addresses = {CLIENTS: f"{SUBNET}.1", **{name: f"{SUBNET}.{n}" for name, n in self._numbers.items()}}
        self.machines = {name: Machine(self.addresses[name], self._enter(name)) for name in names}
        self._hosts_file = folder / "hosts"
        self._ruled: list[str] = []

    def create(self) -> None:
        assert is_inside()
        run("mount", "-t", "tmpfs", "tmpfs", "/run")  # the names of namespaces are files there
        lines = [f"{address} {name}\n" for name, address in self.addresses.items()]
        self._hosts_file.write_text("127.0.0.1 localhost\n" + "".join(lines))
        run("mount", "--bind", self._hosts_file, "/etc/hosts")
        run("ip", "link", "set", "lo", "up")
        run("ip", "link", "add", BRIDGE, "type", "bridge")
        run("ip", "addr", "add", f"{self.addresses[CLIENTS]}/24", "dev", BRIDGE)
        run("ip", "link", "set", BRIDGE, "up")
        for name in self.machines:
            self.add(name)

    def add(self, name: str) -> None:
        number, link = self._numbers[name], self._link(name)
        run("ip", "netns", "add", name)
        run("ip", "link", "add", link, "type", "veth", "peer", "name", "eth0", "netns", name)
        run("ip", "link", "set", link, "master", BRIDGE, "up")
        # Always the same: the others remember it for a while.
        run("ip", "-n", name, "link", "set", "eth0", "address", f"02:00:00:00:00:{number:02x}", "up")
        run("ip", "-n", name, "addr", "add", f"{self.addresses[name]}/24", "dev", "eth0")
        run("ip", "-n", name, "link", "set", "lo", "up")

    def cut(self, name: str) -> None:
        """Take away the machine's link."""
        run("ip", "link", "set", self._link(name), "down")

    def remove(self, name: str) -> None:
        """Forget the machine, and what its kernel would still have sent."""
        run("ip", "link", "del", self._link(name))
        run("ip", "netns", "del", name)

    def lose(self, lost: Iterable[Pair], verdict: str) -> None:
        for name, text in rules(lost, verdict, self.addresses).items():
            self._ruled.append(name)
            run(*self._enter(name), "iptables-restore", text=text)

    def mend(self) -> int:
        """Lose nothing any more; returns how many packets were lost."""
        count = 0
        while self._ruled:
            enter = self._enter(self._ruled.pop())
            count += matched(run(*enter, "iptables-save", "-c"))
            run(*enter, "iptables-restore", text=restored([]))
        return count

    @staticmethod
    def _link(name: str) -> str:
        """The bridge's end."""
        return f"to-{name}"

    @staticmethod
    def _enter(name: str) -> tuple[str, ...]:
        return () if name == CLIENTS else ("ip", "netns", "exec", name)


def run(*argv: str | Path, text: str | None = None) -> str:
    """Its output; an error raises with what it said."""
    ended = subprocess.run(argv, check=False, capture_output=True, text=True, input=text)
    if ended.returncode:
        raise OSError(f"{' '.join(map(str, argv))}: {ended.stderr.strip()}")
    return ended.stdout
