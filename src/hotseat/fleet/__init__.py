"""Many hosts, one address: which are alive, what runs where, and which one serves a request."""
