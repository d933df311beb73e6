"""Measures memory, and connects its figures to the scheduler: figures for the catalog, events, a gated launcher.

`machine.py`, the drivers and `processes.py` measure, and `estimates` computes from files; neither knows about
scheduling.
"""
