"""PURE: which models run. Events in, commands out; no clock, I/O, randomness or log."""
