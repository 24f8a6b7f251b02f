"""Bare SQL: claim and delete jobs, and do nothing else. No queue can be expected to be faster.

It has no lanes. If the jobs have a lane (the hot lane), it claims and deletes them one at a time. A
queue without hand-over needs this pair of calls for each job.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import psycopg

from bench.jobs import Job, Load
from bench.peers.adapter import SLOTS, Run, main, python_peer

PEER = python_peer(
    "bare SQL",
    "psycopg",
    "SELECT count(*) FROM job",
    module="bench.peers.floor",
    entry="import psycopg",
    max_lanes=1,
    max_queues=1,
    max_priorities=1,
    settings=f"claim and delete in batches of {SLOTS}; the hot lane one by one",
)

TABLE = """
CREATE TABLE job (
    id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    doing boolean NOT NULL DEFAULT false,
    lane text,
    args jsonb NOT NULL
);
CREATE INDEX job_waiting ON job (id) WHERE NOT doing;
"""
INSERT = "INSERT INTO job (lane, args) VALUES (%s, %s::jsonb)"
INSERT_MANY = "INSERT INTO job (lane, args) SELECT * FROM unnest(%s::text[], %s::text[]::jsonb[])"
CLAIM = """
UPDATE job SET doing = true
WHERE id = ANY (ARRAY(
    SELECT id FROM job WHERE NOT doing ORDER BY id LIMIT %s FOR UPDATE SKIP LOCKED
))
RETURNING id, args
"""
DELETE = "DELETE FROM job WHERE id = ANY (%s)"


class Producer:
    def __init__(self, connection: psycopg.Connection[Any]) -> None:
        self._connection = connection

    async def one(self, job: Job) -> object:
        return self._connection.execute(INSERT, [job.lane, json.dumps(job.args)])

    def prepare(self, batch: list[Job]) -> list[list[Any]]:
        return [[job.lane for job in batch], [json.dumps(job.args) for job in batch]]

    async def bulk(self, prepared: list[list[Any]]) -> object:
        return self._connection.execute(INSERT_MANY, prepared)


class Adapter:
    imports: tuple[str, ...] = ("psycopg",)

    def install(self, dsn: str) -> None:
        with psycopg.connect(dsn) as connection:
            connection.execute(TABLE)

    @asynccontextmanager
    async def producer(self, dsn: str) -> AsyncIterator[Producer]:
        with psycopg.connect(dsn, autocommit=True) as connection:
            yield Producer(connection)

    def work(self, dsn: str, load: Load, run: Run) -> None:
        asyncio.run(_work(dsn, 1 if load.lanes else SLOTS, run))


async def _work(dsn: str, batch: int, run: Run) -> None:
    with psycopg.connect(dsn, autocommit=True) as connection:
        while True:
            claimed = connection.execute(CLAIM, [batch], prepare=True).fetchall()
            if not claimed:
                await asyncio.sleep(0.001)
                continue
            for _, args in claimed:
                await run(**args)
            connection.execute(DELETE, [[id for id, _ in claimed]], prepare=True)


if __name__ == "__main__":
    main(Adapter())
