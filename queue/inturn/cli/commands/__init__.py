"""One module for each command of `queue`, imported when you call the command.

A module defines `command`, which may be a group.
What its commands share with others, or need besides, is in the modules beside this folder.
"""
