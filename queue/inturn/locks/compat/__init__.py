"""Drop-ins for `openlock`, for redis-py's `Lock`, and for the functions of "Redis in Action"."""
