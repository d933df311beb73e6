"""Metrics, log lines and the event loop's lag."""
