"""Errors that a page shows in place of data."""

from __future__ import annotations

from dataclasses import dataclass

import psycopg

from inturn.database.conditions import FORBIDDEN, first_line
from inturn.errors import DatabaseBusy, DatabaseUnavailable, InturnError, SchemaMismatch


@dataclass(frozen=True, slots=True)
class Problem:
    """A problem and its remedy."""

    title: str
    detail: str

    @classmethod
    def of(cls, error: InturnError, seconds: float) -> Problem:
        """Describe a database error."""
        cause = error.__cause__
        if isinstance(cause, psycopg.Error) and cause.sqlstate == FORBIDDEN:
            return cls(
                "The dashboard's login may not see this",
                f"It lacks a right: {first_line(cause)}. Roles and what they may see: "
                "docs/security.md, queue schema grants.",
            )
        if isinstance(cause, psycopg.errors.LockNotAvailable):
            return cls(
                "A table of the queue is locked",
                "Workers that write to it wait too. To find the session that has the lock, run: "
                "queue doctor",
            )
        match error:
            case DatabaseBusy():
                return cls(
                    f"This took longer than {seconds:g} s and was cancelled",
                    "The dashboard stops early so that it never burdens workers. Reload the page "
                    "or use a narrower filter.",
                )
            case SchemaMismatch():
                return cls("The database does not fit this version", str(error))
            case DatabaseUnavailable():
                return cls("The database cannot be reached", str(error))
        return cls("The database refused this", str(error))
