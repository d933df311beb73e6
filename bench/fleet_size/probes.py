"""What the kernel and NATS say about a process and its connection."""

from __future__ import annotations

import os
import re
import subprocess
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tests.support.processes import proc_file

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tests.support.nats import NatsServer

TICKS = os.sysconf("SC_CLK_TCK")
_SENT, _RECEIVED = re.compile(r"bytes_sent:(\d+)"), re.compile(r"bytes_received:(\d+)")


def processor_s(pid: int) -> float:
    """In user and kernel mode, in nanoseconds of the scheduler: the ticks of /proc/PID/stat are too coarse here."""
    threads = Path(f"/proc/{pid}/task").iterdir()
    return sum(int((thread / "schedstat").read_text().split()[0]) for thread in threads) / 1e9


def processor_since_start_s(pid: int) -> float:
    """Including threads that have ended, in ticks."""
    fields = proc_file(pid, "stat").rpartition(b")")[2].split()
    return (int(fields[11]) + int(fields[12])) / TICKS


def resident_mb(pid: int) -> float:
    (line,) = [line for line in proc_file(pid, "status").splitlines() if line.startswith(b"VmRSS:")]
    return int(line.split()[1]) * 1024 / 1e6


@dataclass(frozen=True, slots=True)
class Traffic:
    """Of one host's connection to NATS since it was opened, from the view of the host."""

    messages_in: int
    messages_out: int
    bytes_in: int
    """On the wire: everything inside TCP, with NATS' own protocol."""
    bytes_out: int

    def since(self, before: Traffic) -> Traffic:
        return Traffic(
            self.messages_in - before.messages_in,
            self.messages_out - before.messages_out,
            self.bytes_in - before.bytes_in,
            self.bytes_out - before.bytes_out,
        )


NONE = Traffic(0, 0, 0, 0)


def traffic_of(host: str, servers: Sequence[NatsServer]) -> Traffic:
    """NONE if it is not connected."""
    for server in servers:
        for connection in server.monitoring("connz?limit=4096")["connections"]:
            if connection.get("name") == f"hotseat {host}":
                return _traffic(connection)
    return NONE


def _traffic(connection: dict[str, Any]) -> Traffic:
    """NATS counts messages, and of their bytes only the contents; the kernel counts all bytes."""
    output = subprocess.run(
        ["ss", "-tinH", f"sport = :{connection['port']}"], capture_output=True, text=True, check=True
    ).stdout
    sent, received = _SENT.search(output), _RECEIVED.search(output)
    return Traffic(
        connection["out_msgs"],
        connection["in_msgs"],
        int(received[1]) if received else 0,
        int(sent[1]) if sent else 0,
    )


def routed_bytes(servers: Sequence[NatsServer]) -> int:
    """Sent between the servers since they started, as NATS counts them."""
    return sum(route["out_bytes"] for server in servers for route in server.monitoring("routez")["routes"])
