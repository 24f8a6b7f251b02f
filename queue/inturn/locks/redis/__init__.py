"""Locks in Redis. `smart` is the main one. The scripts in `lua/` decide on the server."""
