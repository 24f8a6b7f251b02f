"""Processes and servers that commands start."""
