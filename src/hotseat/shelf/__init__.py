"""Where model files stand on this machine, and what each of them is. `shelf.py` is the door; nothing here decides."""
