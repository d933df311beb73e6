"""Hands the running model servers over to a new hotseat process, so that a restart unloads nothing."""
