"""Podman's monitors of containers, recognised by their command line."""

from __future__ import annotations

import subprocess
from contextlib import contextmanager
from typing import TYPE_CHECKING

import pytest
from tests.support.waiting import eventually

from hotseat.model_servers.monitors import is_monitor, is_monitor_of, to_kill
from hotseat.model_servers.os_processes import children, command_line

if TYPE_CHECKING:
    from collections.abc import Iterator


@contextmanager
def monitor(*words: str) -> Iterator[int]:
    """A shell under the monitor's name; it waits for its input to close."""
    command = ["/usr/bin/conmon", "-c", *words, "-n", "qwen"]
    with subprocess.Popen(command, executable="/bin/sh", stdin=subprocess.PIPE) as shell:
        eventually(lambda: is_monitor(shell.pid) and children(shell.pid))
        yield shell.pid


@pytest.mark.parametrize(
    ("client", "is_its"),
    [
        (("podman", "run", "--name", "qwen", "image"), True),
        (("podman", "run", "--name=qwen", "image"), True),
        (("podman", "run", "--name", "gemma", "image", "qwen"), False),
        (("podman", "run", "image"), False),
    ],
)
def test_a_monitor_is_the_clients_that_named_the_container(client: tuple[str, ...], is_its: bool) -> None:
    """The monitor has the name as an argument."""
    with monitor("cat; true") as pid:
        assert is_monitor_of(pid, client) is is_its


def test_another_process_is_no_monitor() -> None:
    """Neither one that runs nor one that is gone."""
    with subprocess.Popen(["cat", "-n"], stdin=subprocess.PIPE) as cat:
        assert not is_monitor(cat.pid)
        assert not is_monitor_of(cat.pid, ("podman", "run", "--name", "qwen"))
    assert not is_monitor(cat.pid)


def test_a_container_is_killed_before_its_monitor() -> None:
    """The monitor removes it then; if that takes too long, it is killed, too."""
    with monitor("cat; true") as pid:
        (contained,) = children(pid)

        assert to_kill([pid, 1], is_late=False) == [1, contained]
        assert to_kill([pid, 1], is_late=True) == [pid, 1, contained]


def test_the_removal_is_no_part_of_the_container() -> None:
    """It is a child of the monitor, as the container was."""
    with monitor("sh -c 'cat; true' podman container cleanup --rm 4711; true") as pid:
        (removal,) = children(pid)
        eventually(lambda: "cleanup" in command_line(removal))  # until then it is a copy of the monitor

        assert removal not in to_kill([pid], is_late=False)
