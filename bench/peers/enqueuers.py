"""inturn, as users of SQLAlchemy, Django and plain SQL enqueue. Only the rows of enqueueing run it.

One by one, each job has a transaction of its own. In bulk, all jobs share one. "Without a job", the
transaction inserts a row of a bare table: what the library itself costs.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

from bench.jobs import Job, Load
from bench.peers import ours
from bench.peers.adapter import Peer, Producer, Run, main

SETTINGS = {
    "SQLAlchemy": "one Session for each transaction",
    "Django": "inside transaction.atomic()",
    "SQL": "SELECT inturn.defer(…)",
    "SQLAlchemy without a job": "the same, for a row of a bare table",
    "Django without a job": "the same, for a row of a bare table",
}
BARE = "without a job"
DEFER = "SELECT inturn.defer('work', %s::jsonb, %s)"
DEFER_MANY = """
SELECT inturn.defer('work', args::jsonb, lane)
FROM unnest(%s::text[], %s::text[]) AS jobs (args, lane)
"""

TABLE = "CREATE TABLE IF NOT EXISTS bare (id bigserial PRIMARY KEY, args jsonb)"
INSERT = "INSERT INTO bare (args) VALUES ({}::jsonb) RETURNING id"


def peer(kind: str, source: Path) -> Peer:
    plain = ours.peer(f"inturn ({kind})", source)
    return replace(
        plain,
        command=(sys.executable, "-m", "bench.peers.enqueuers", kind),
        settings=SETTINGS[kind],
        rows=("one",) if kind.endswith(BARE) else ("one", "bulk"),
    )


class OfSQLAlchemy:
    def __init__(self, dsn: str) -> None:
        from sqlalchemy import create_engine

        self._task = _task(dsn)
        self._engine = create_engine("postgresql+psycopg://", creator=lambda: _connect(dsn))

    async def one(self, job: Job) -> object:
        from sqlalchemy.orm import Session

        with Session(self._engine) as session, session.begin():
            return self._enqueue(session, job)

    def _enqueue(self, session: Any, job: Job) -> object:
        return self._task.configure(lock=job.lane, connection=session).defer(**job.args)

    def prepare(self, batch: list[Job]) -> list[dict[str, Any]]:
        return [job.args for job in batch]

    async def bulk(self, prepared: list[dict[str, Any]]) -> object:
        from sqlalchemy.orm import Session

        with Session(self._engine) as session, session.begin():
            return self._task.configure(connection=session).batch_defer(*prepared)


class OfBareSQLAlchemy(OfSQLAlchemy):
    def __init__(self, dsn: str) -> None:
        super().__init__(dsn)
        from sqlalchemy import text

        with self._engine.begin() as connection:
            connection.execute(text(TABLE))
        self._insert = text(INSERT.format("(:args)"))

    def _enqueue(self, session: Any, job: Job) -> object:
        return session.execute(self._insert, {"args": json.dumps(job.args)}).scalar()


class OfDjango:
    def __init__(self, dsn: str) -> None:
        import django
        from django.conf import settings
        from psycopg.conninfo import conninfo_to_dict

        known = conninfo_to_dict(dsn)
        database = {
            "ENGINE": "django.db.backends.postgresql",
            "NAME": known["dbname"],
            "USER": known["user"],
            "HOST": known["host"],
            "PORT": known.get("port", ""),
        }
        os.environ["DJANGO_ALLOW_ASYNC_UNSAFE"] = "1"  # the harness calls it from an event loop
        settings.configure(DATABASES={"default": database}, INSTALLED_APPS=["inturn.django"])
        django.setup()
        from inturn.django import app

        @app.task(name="work")
        def work(number: int, lane: str, ms: float) -> None: ...

        self._task: Any = work

    async def one(self, job: Job) -> object:
        from django.db import transaction

        with transaction.atomic():
            return self._enqueue(job)

    def _enqueue(self, job: Job) -> object:
        return self._task.configure(lock=job.lane).defer(**job.args)

    def prepare(self, batch: list[Job]) -> list[dict[str, Any]]:
        return [job.args for job in batch]

    async def bulk(self, prepared: list[dict[str, Any]]) -> object:
        from django.db import transaction

        with transaction.atomic():
            return self._task.batch_defer(*prepared)


class OfBareDjango(OfDjango):
    def __init__(self, dsn: str) -> None:
        super().__init__(dsn)
        from django.db import connection

        connection.ensure_connection()
        connection.cursor().execute(TABLE)

    def _enqueue(self, job: Job) -> object:
        from django.db import connection

        with connection.cursor() as cursor:
            cursor.execute(INSERT.format("%s"), [json.dumps(job.args)])
            return cursor.fetchone()


class OfSQL:
    def __init__(self, dsn: str) -> None:
        self._connection = _connect(dsn)
        self._connection.autocommit = True

    async def one(self, job: Job) -> object:
        return self._connection.execute(DEFER, [json.dumps(job.args), job.lane])

    def prepare(self, batch: list[Job]) -> list[list[Any]]:
        return [[json.dumps(job.args) for job in batch], [job.lane for job in batch]]

    async def bulk(self, prepared: list[list[Any]]) -> object:
        return self._connection.execute(DEFER_MANY, prepared)


PRODUCERS: dict[str, Callable[[str], Producer]] = {
    "SQLAlchemy": OfSQLAlchemy,
    "Django": OfDjango,
    "SQL": OfSQL,
    "SQLAlchemy without a job": OfBareSQLAlchemy,
    "Django without a job": OfBareDjango,
}


def _connect(dsn: str) -> Any:
    import psycopg

    return psycopg.connect(dsn)


def _task(dsn: str) -> Any:
    from inturn import App

    @App(dsn).task(name="work")
    async def work(number: int, lane: str, ms: float) -> None: ...

    return work


class Adapter:
    imports: tuple[str, ...] = ()

    def __init__(self, kind: str) -> None:
        self._kind = kind

    def install(self, dsn: str) -> None:
        ours.Adapter([]).install(dsn)

    @asynccontextmanager
    async def producer(self, dsn: str) -> AsyncIterator[Producer]:
        yield PRODUCERS[self._kind](dsn)

    def work(self, dsn: str, load: Load, run: Run) -> None:
        ours.Adapter([]).work(dsn, load, run)


if __name__ == "__main__":
    main(Adapter(sys.argv.pop(1)))
