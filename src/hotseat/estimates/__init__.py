"""How much memory a model will need, read from its files and its command line before it runs.

`estimate.py` is the door. Everything here but `files.py` is pure: headers come in as streams, command lines as words.
What llama-server does with them was measured, not guessed: docs/reference/estimates.md has the figures.
"""
