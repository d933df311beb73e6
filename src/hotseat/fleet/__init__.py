"""Many hosts, one address: who is there, what runs where, and which of them serves a request."""
