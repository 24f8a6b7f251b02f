"""Is this worker alive, and is it ready for jobs?

`checks` says what is looked at, `database_check` asks the database, `systemd` tells systemd, and
`probe` asks a worker from outside. Nothing here is imported until it is used.
"""
