"""Which model a request is for, and what its path allows."""
