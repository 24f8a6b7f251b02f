"""Locks on files of one machine, and the files that prove whether a process is alive."""
