"""Programs that run a server outside their own process tree: the tree says nothing about the server."""

from __future__ import annotations

CONTAINERS = ("docker", "podman", "nerdctl", "lxc", "incus", "distrobox", "toolbox", "flatpak-spawn", "machinectl")
ELSEWHERE = frozenset((*CONTAINERS, "systemd-run", "ssh", "autossh", "kubectl", "srun", "sudo", "doas"))
