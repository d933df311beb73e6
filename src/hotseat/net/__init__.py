"""Sockets: connecting, listening, and a small HTTP client for our own requests."""
