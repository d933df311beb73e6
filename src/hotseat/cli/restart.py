"""`hotseat restart`: replaces the running process by the installed program, without unloading a model."""

from __future__ import annotations

import os
import signal
import time
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from hotseat.cli.problems import Problem
from hotseat.model_servers.port_owner import owner_of

if TYPE_CHECKING:
    from hotseat.cli.client import Server

LOOK_S = 0.1
RESTART_S = 700.0
"""hotseat gives its new process, and loads and unloads in progress, eleven minutes."""
STATE = "/hotseat/restart"


def restart(server: Server) -> None:
    before = server.ask("GET", STATE)
    server = replace(server, patience_s=RESTART_S)
    if server.api_key:
        server.wait("POST", STATE)
    else:
        send_signal(server, before["pid"])
    after = wait_for_end(server, before)
    kept = len(server.ask("GET", "/running")["running"])
    print(f"process {after['pid']} has taken over from {before['pid']}; running models: {kept}")


def send_signal(server: Server, pid: int) -> None:
    """Only the user who runs hotseat can send it a signal, so no key is needed."""
    check_is_here(server, pid)
    try:
        os.kill(pid, signal.SIGUSR2)
    except PermissionError:
        raise Problem(f"process {pid} belongs to another user; use sudo, or an API key with the role admin") from None


def check_is_here(server: Server, pid: int) -> None:
    """The process that answered may run elsewhere, with the number of a local one, which a signal would end."""
    if owner_of(*server.peer(), leader=pid) != pid:
        raise Problem(
            f"no process of yours on this machine listens at {server.url}; as another user or from another machine, use"
            " an API key with the role admin"
        )


def wait_for_end(server: Server, before: dict[str, Any]) -> dict[str, Any]:
    """The state of the new process; Problem if the attempt failed, or nobody knows how it went."""
    until = time.monotonic() + RESTART_S
    while time.monotonic() < until:
        state: dict[str, Any] = server.ask("GET", STATE)
        if state["pid"] != before["pid"]:
            return state
        if state["attempts"] > before["attempts"] and not state["is_in_progress"]:
            raise Problem(f"the restart failed, and process {state['pid']} continues: {state['problem']}")
        time.sleep(LOOK_S)
    raise Problem(f"process {before['pid']} has neither restarted nor said why not for {RESTART_S:g} s; see its log")
