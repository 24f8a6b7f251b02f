"""One module per `queue` command, imported when you call the command.

A module defines `command`, which may be a group.
Shared helpers are in the folders beside this one.
"""
