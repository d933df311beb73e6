"""Models on disk: where they are and what each file is. `search.py` is the entry point; nothing here decides."""
