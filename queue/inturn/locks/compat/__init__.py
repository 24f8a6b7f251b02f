"""Drop-ins with the names and formats of other libraries: `openlock`, redis-py's `Lock`, "Redis in Action"."""
