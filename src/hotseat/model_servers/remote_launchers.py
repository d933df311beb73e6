"""Programs whose server runs outside of their own process tree: what belongs to the tree says nothing of the server."""

from __future__ import annotations

CONTAINERS = ("docker", "podman", "nerdctl", "lxc", "incus", "distrobox", "toolbox", "flatpak-spawn", "machinectl")
ELSEWHERE = frozenset((*CONTAINERS, "systemd-run", "ssh", "autossh", "kubectl", "srun", "sudo", "doas"))
