"""One module for each command of `queue`, imported when you call the command.

A module defines `command`, which may be a group.
Helpers of the commands are in the modules beside this folder.
"""
