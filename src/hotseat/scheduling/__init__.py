"""PURE: who runs. Facts in, wishes out, time handed in. No clock, no I/O, no dice, no log."""
