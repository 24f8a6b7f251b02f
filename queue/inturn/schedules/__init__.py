"""When a cron expression fires, and what happens to instants that were missed.

Needs no database.
"""
