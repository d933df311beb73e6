"""Many hosts behind one address: who is alive, what runs where, and which host serves a request."""
