"""One module for each command of `queue`. Each is imported when its command is called."""
