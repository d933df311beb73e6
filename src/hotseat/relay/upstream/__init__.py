"""Connections to model servers: keep them, read responses, and know what became of a request."""
