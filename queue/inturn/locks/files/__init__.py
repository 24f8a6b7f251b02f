"""Locks on files of one machine, and the file that proves that a process is alive."""
