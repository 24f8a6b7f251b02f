"""When a cron expression fires, and what happens to missed instants.

Needs no database.
"""
