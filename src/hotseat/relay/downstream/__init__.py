"""Client connections: accept them, read requests, and write answers in order."""
