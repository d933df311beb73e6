"""Estimates how much memory a model will need, from its files and its command line, before it runs.

`estimate.py` is the entry point. Everything except `files.py` is pure: headers come in as streams, command lines as
words. What llama-server does was measured: docs/reference/estimates.md has the figures.
"""
