"""One database for all the tests of a process: what a test leaves in it is removed for the next one.

To clone and drop a database takes far longer than to empty one.
Rows, sequences and settings are reset and sessions ended, without a word.
Objects are not: a test that creates or changes them asks for a database of its own
(`@pytest.mark.fresh_database`) or puts them back, and fails if it forgets.
"""

import time
from collections.abc import Callable
from contextlib import AbstractContextManager, ExitStack
from itertools import islice
from typing import Any

import psycopg
from psycopg.sql import SQL, Composed, Identifier, Literal

from tests.waiting import pauses, wait_until

# Deleted rows stay in the files until a vacuum, and every look passes over them.
ROWS_BEFORE_A_NEW_CLONE = 2_000

KEPT = "a session that tests keep"
# With a timeout, pg_terminate_backend looks again only after a tenth of a second.
END_SESSIONS = """
SELECT count(*) FILTER (WHERE pg_terminate_backend(pid)) FROM pg_stat_activity
WHERE datname = current_database() AND backend_type = 'client backend' AND application_name <> %s
"""
CONNECTED = """
SELECT application_name FROM pg_stat_activity
WHERE datname = current_database() AND backend_type = 'client backend' AND application_name <> %s
"""
WORKERS = {"inturn worker", "inturn listener"}  # they connect again when a session is ended
LOOKS_FOR_WORKERS = 20
# A new version of a row in a catalogue says that an object may have changed, and this is cheap.
VERSIONS = """
SELECT sum(hashtextextended(seen, 0)) FROM (
    SELECT 'p' || oid || ' ' || xmin FROM pg_proc WHERE oid >= 16384
    UNION ALL SELECT 'c' || oid || ' ' || xmin FROM pg_class WHERE oid >= 16384
    UNION ALL SELECT 't' || oid || ' ' || xmin FROM pg_trigger
    UNION ALL SELECT 'k' || oid || ' ' || xmin FROM pg_constraint WHERE oid >= 16384
    UNION ALL SELECT 'y' || oid || ' ' || xmin FROM pg_type WHERE oid >= 16384
    UNION ALL SELECT 'n' || oid || ' ' || xmin FROM pg_namespace
    UNION ALL SELECT 'e' || oid || ' ' || xmin FROM pg_extension
    UNION ALL SELECT 'u' || oid || ' ' || xmin FROM pg_publication
    UNION ALL SELECT 'd' || oid || ' ' || xmin FROM pg_event_trigger
) AS objects (seen)
"""
DEFINITIONS = """
SELECT 'function ' || oid::regprocedure, pg_get_functiondef(oid) || coalesce(proacl::text, '')
FROM pg_proc WHERE oid >= 16384 AND prokind IN ('f', 'p')
UNION ALL
SELECT 'relation ' || oid::regclass, concat_ws(' ', relkind, relacl, reloptions, relreplident, (
        SELECT array_agg(concat_ws(' ', attname, atttypid::regtype, attnotnull, attacl)
                         ORDER BY attnum)
        FROM pg_attribute WHERE attrelid = r.oid AND NOT attisdropped
    ), CASE relkind WHEN 'v' THEN pg_get_viewdef(oid) WHEN 'i' THEN pg_get_indexdef(oid) END)
FROM pg_class AS r WHERE oid >= 16384 AND relkind <> 't' AND NOT EXISTS (
    SELECT FROM pg_index WHERE indexrelid = r.oid
    AND indrelid IN (SELECT oid FROM pg_class WHERE relkind = 't')
)
UNION ALL
SELECT 'trigger ' || tgname || ' of ' || tgrelid::regclass,
       pg_get_triggerdef(oid) || tgenabled::text
FROM pg_trigger WHERE NOT tgisinternal
UNION ALL
SELECT 'constraint ' || conname || ' of ' || conrelid::regclass || contypid,
       pg_get_constraintdef(oid)
FROM pg_constraint WHERE oid >= 16384
UNION ALL SELECT 'type ' || oid::regtype, typtype::text FROM pg_type WHERE oid >= 16384
UNION ALL SELECT 'schema ' || nspname, coalesce(nspacl::text, '') FROM pg_namespace
WHERE nspname !~ '^pg_(toast_)?temp_'
UNION ALL SELECT 'extension ' || extname, extversion FROM pg_extension
UNION ALL SELECT 'publication ' || pubname, '' FROM pg_publication
UNION ALL SELECT 'event trigger ' || evtname, '' FROM pg_event_trigger
"""
RELATIONS = """
SELECT nspname, relname, relkind = 'S' FROM pg_class JOIN pg_namespace AS n ON n.oid = relnamespace
WHERE relkind IN ('r', 'p', 'S') AND NOT relispartition AND nspname !~ '^(pg_|information_schema)'
"""
PARTITIONS = """
SELECT nspname, relname FROM pg_class JOIN pg_namespace AS n ON n.oid = relnamespace
WHERE relkind = 'r' AND relispartition
"""


Name = tuple[str, str]  # schema and relation


class LeftBehind(AssertionError):
    """A test has changed objects of the database that others use after it."""


class Pool:
    """`make` makes a new database, and drops it at the end."""

    def __init__(self, make: Callable[[], AbstractContextManager[str]]) -> None:
        self._make = make
        self._lent: _Lent | None = None
        self._end = ExitStack()
        self._definitions: dict[frozenset[Name], dict[str, str]] = {}

    def lend(self) -> str:
        """Return the DSN of a database that is as good as new."""
        if self._lent is not None and self._lent.connected():
            self.close()  # something of an earlier test connects again and again
        if self._lent is None:
            dsn = self._end.enter_context(self._make())
            control = psycopg.connect(dsn, autocommit=True, application_name=KEPT)
            self._lent = _Lent(dsn, self._end.enter_context(control), self._definitions)
        return self._lent.dsn

    def take_back(self) -> None:
        """Empty the database for the next test. Raise LeftBehind if objects have changed."""
        assert self._lent is not None
        try:
            has_workers = self._lent.keeps_workers()
            removed = self._lent.reset()
        except BaseException:
            self.close()
            raise
        if has_workers or removed > ROWS_BEFORE_A_NEW_CLONE:
            self.close()

    def close(self) -> None:
        self._lent = None
        self._end.close()


class _Lent:
    """The database that is lent, and how it was when it was new."""

    def __init__(
        self,
        dsn: str,
        control: psycopg.Connection,
        definitions: dict[frozenset[Name], dict[str, str]],
    ) -> None:
        """`definitions` holds those of earlier clones, by their partitions: the rest is the same."""
        self.dsn, self.control = dsn, control
        self._partitions = self._read_partitions()
        relations = self.control.execute(RELATIONS).fetchall()
        tables = [(schema, name) for schema, name, is_sequence in relations if not is_sequence]
        self._filled = {table: rows for table in tables if (rows := self._read_rows(table))}
        self._wipe = self._write_wipe(
            [table for table in tables if table not in self._filled],
            [(schema, name) for schema, name, is_sequence in relations if is_sequence],
        )
        self._versions = self._read_versions()
        days = frozenset(self._partitions)
        if days not in definitions:
            definitions[days] = self._read_definitions()
        self._definitions = definitions[days]
        self._removed = 0

    def connected(self) -> set[str]:
        """Return the names of the applications that are connected."""
        return {name for (name,) in self.control.execute(CONNECTED, [KEPT]).fetchall()}

    def keeps_workers(self) -> bool:
        """Return True if workers stay connected. A backend outlives its client by a moment."""
        for pause in islice(pauses(), LOOKS_FOR_WORKERS):
            if WORKERS.isdisjoint(self.connected()):
                return False
            time.sleep(pause)
        return True

    def reset(self) -> int:
        """Return how many rows have been removed since the database was new."""
        self._end_sessions()
        self.control.execute(
            SQL("ALTER DATABASE {} RESET ALL").format(Identifier(self.control.info.dbname))
        )
        for partition in self._read_partitions() - self._partitions:
            self.control.execute(SQL("DROP TABLE {}").format(Identifier(*partition)))
        if changed := self._changed():
            raise LeftBehind(
                f"The test leaves behind what it has changed: {', '.join(sorted(changed))}. "
                "Put it back, or ask for a database of your own: @pytest.mark.fresh_database"
            )
        cursor = self.control.execute(self._wipe)
        self._removed += max(0, cursor.rowcount)
        while cursor.nextset():
            self._removed += max(0, cursor.rowcount)
        return self._removed

    def _end_sessions(self) -> None:
        wait_until(
            lambda: self.control.execute(END_SESSIONS, [KEPT]).fetchone() == (0,),
            explain=lambda: f"sessions that do not end: {self.connected()}",
        )

    def _changed(self) -> set[str]:
        """Return the names of what is not as it was."""
        versions = self._read_versions()
        if versions != self._versions:
            now = self._read_definitions()
            if changed := {name for name, _ in self._definitions.items() ^ now.items()}:
                return changed
            self._versions = versions
        return {
            f"rows of {'.'.join(table)}"
            for table, rows in self._filled.items()
            if self._read_rows(table) != rows
        }

    def _read_versions(self) -> Any:
        return self.control.execute(VERSIONS).fetchone()

    def _read_definitions(self) -> dict[str, str]:
        return dict(self.control.execute(DEFINITIONS).fetchall())

    def _read_partitions(self) -> set[Name]:
        """Return the partitions of the history. A worker creates those of the next days."""
        return set(self.control.execute(PARTITIONS).fetchall())

    def _read_rows(self, table: Name) -> list[tuple[str]]:
        statement = SQL("SELECT t::text FROM {} AS t ORDER BY 1").format(Identifier(*table))
        return self.control.execute(statement).fetchall()

    def _write_wipe(self, tables: list[Name], sequences: list[Name]) -> Composed:
        """Return the statements that empty the tables and set the sequences back."""
        parts: list[Composed | SQL] = [
            SQL("BEGIN; SET LOCAL session_replication_role = replica")  # no triggers, no keys
        ]
        parts += [SQL("DELETE FROM {}").format(Identifier(*table)) for table in tables]
        for sequence in (Identifier(*name) for name in sequences):
            ((value, is_called),) = self.control.execute(
                SQL("SELECT last_value, is_called FROM {}").format(sequence)
            )
            name = Literal(sequence.as_string())
            parts.append(SQL("SELECT setval({}, {}, {})").format(name, value, is_called))
        return SQL("; ").join([*parts, SQL("COMMIT")])
