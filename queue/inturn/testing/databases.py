"""A server for tests, with a template database that is migrated once and cloned for each test."""

import os
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Self
from uuid import uuid4

import psycopg
from psycopg.conninfo import make_conninfo
from psycopg.errors import ObjectInUse
from psycopg.sql import SQL, Identifier

from inturn.database import drive
from inturn.embedded import Server
from inturn.errors import ConfigurationError
from inturn.schema.migrate import migrate
from inturn.sql import SCHEMA

Prepare = Callable[[str], object]
EMPTY = "template1"


class Databases:
    """The server at `server_dsn`, else at INTURN_TEST_DSN, else an embedded one.

    An embedded server ends with the `with` block. On your own server, the user must be allowed to
    create databases.
    After the queue's migrations, `prepare` is called once with the DSN of the template. Create your
    own tables there, and leave no connection open.

        with Databases(prepare=create_my_tables) as databases:
            with databases.clone() as dsn, Queue(app, dsn) as queue:
                assert queue.jobs() == []
    """

    def __init__(
        self,
        server_dsn: str | None = None,
        *,
        prepare: Prepare | None = None,
        schema: str = SCHEMA,
        bin_dir: Path | None = None,
    ) -> None:
        self._named = server_dsn or os.environ.get("INTURN_TEST_DSN")
        self._prepare = prepare
        self._schema = schema
        self._bin_dir = bin_dir
        self._server: str | None = None
        self._template: str | None = None
        self._ends = ExitStack()

    def __enter__(self) -> Self:
        self._server = self._named or self._ends.enter_context(Server(bin_dir=self._bin_dir)).dsn()
        return self

    def __exit__(self, *_: object) -> None:
        self._ends.close()
        self._server = self._template = None

    @property
    def server_dsn(self) -> str:
        """The DSN of the server."""
        if self._server is None:
            raise ConfigurationError(
                "The server is not running yet. Use: with Databases() as databases: …"
            )
        return self._server

    @contextmanager
    def clone(self) -> Iterator[str]:
        """Yield the DSN of a new copy of the template, which is dropped at the end."""
        if self._template is None:
            dsn = self._ends.enter_context(self._database(EMPTY))
            migrate(dsn, self._schema)
            if self._prepare is not None:
                self._prepare(dsn)
            self._template = str(psycopg.conninfo.conninfo_to_dict(dsn)["dbname"])
        with self._database(self._template) as dsn:
            yield dsn

    @contextmanager
    def empty(self) -> Iterator[str]:
        """Yield the DSN of a new, empty database, which is dropped at the end."""
        with self._database(EMPTY) as dsn:
            yield dsn

    @contextmanager
    def _database(self, template: str) -> Iterator[str]:
        name = f"inturn_test_{uuid4().hex}"
        create = SQL("CREATE DATABASE {} TEMPLATE {}")
        self._execute(create.format(Identifier(name), Identifier(template)))
        try:
            yield make_conninfo(self.server_dsn, dbname=name)
        finally:
            self._execute(SQL("DROP DATABASE {} WITH (FORCE)").format(Identifier(name)))

    def _execute(self, statement: psycopg.sql.Composed) -> None:
        # A kept connection would be idle throughout the tests, so open one each time.
        with (
            drive.translate_errors(),
            psycopg.connect(self.server_dsn, autocommit=True) as connection,
        ):
            try:
                connection.execute(statement)
            except ObjectInUse as error:
                raise ConfigurationError(
                    "The template database cannot be copied while a connection to it is open. "
                    "Close every connection in `prepare` (engine.dispose())."
                ) from error
