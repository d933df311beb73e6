"""Client connections: accept them, read requests, write responses in order."""
