"""Client connections: accept them, read requests, and write responses in order."""
