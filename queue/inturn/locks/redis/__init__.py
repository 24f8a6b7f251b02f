"""Locks in Redis. `smart` is the main one, and `lua/` holds the scripts that decide on the server."""
