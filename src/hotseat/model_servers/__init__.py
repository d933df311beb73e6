"""Processes of model servers: start, watch and stop them, so that none outlives hotseat."""
