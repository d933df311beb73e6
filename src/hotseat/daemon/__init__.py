"""The process itself: startup banner, shutdown, systemd and file descriptors."""
