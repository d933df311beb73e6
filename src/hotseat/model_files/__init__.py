"""Finds models on disk and says what each file is. `search.py` is the entry point."""
