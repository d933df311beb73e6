"""Connections to model servers: pool them, read responses, and detect how a request ended."""
