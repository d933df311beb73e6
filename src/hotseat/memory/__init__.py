"""Connects memory figures to the scheduler: figures for the catalog, events for the scheduler, a gated launcher.

`hardware` measures and `estimates` computes from files; neither knows about scheduling.
"""
