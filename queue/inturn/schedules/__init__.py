"""Instants of cron expressions, without a database: when a schedule is due, and what it missed."""
