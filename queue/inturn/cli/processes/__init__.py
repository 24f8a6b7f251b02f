"""Processes that a command starts, and servers that run beside it."""
