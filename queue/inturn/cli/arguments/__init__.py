"""Arguments, options and confirmation of commands."""
