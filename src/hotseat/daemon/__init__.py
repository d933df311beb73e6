"""The process itself: what it says at its start, how it ends, systemd, and file descriptors."""
