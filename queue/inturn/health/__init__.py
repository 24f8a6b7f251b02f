"""Is this worker alive, and is it ready for jobs?

`checks` says what is looked at, `database_check` asks the database, and `systemd` tells systemd.
Nothing here is imported until it is used.
"""
