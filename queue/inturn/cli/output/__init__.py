"""The output of commands, and their exit status."""
