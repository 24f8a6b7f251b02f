"""Bring a queue by hand to the state that a command is to find, at a time of your choice."""

import json
from typing import Any
from uuid import UUID

import psycopg


class Engine:
    """A worker `w` of the queue `default`, and the clock of the whole database."""

    def __init__(self, dsn: str) -> None:
        self.dsn = dsn
        self._connection = psycopg.connect(dsn, autocommit=True, options="-c search_path=inturn")
        self._worker: UUID | None = None

    def close(self) -> None:
        self._connection.close()

    def query(self, statement: str, *parameters: object) -> list[tuple[Any, ...]]:
        cursor = self._connection.execute(statement.encode(), parameters)
        return cursor.fetchall() if cursor.description else []

    def at(self, time: str) -> None:
        """Set the clock, for this connection and for those that are opened later."""
        self.query(f"ALTER DATABASE {self._connection.info.dbname} SET inturn.clock = '{time}'")
        self.query(f"SET inturn.clock = '{time}'")

    def defer(
        self, task: str = "t", lock: str | None = None, queue: str = "default", **more: object
    ) -> int:
        given = {"at": None, "delay": None, "priority": 0, "on_failure": "continue"} | more
        ((id,),) = self.query(
            "SELECT id FROM defer_jobs(ARRAY[%s], ARRAY['{}'::jsonb], ARRAY[%s], ARRAY[%s::text],"
            " ARRAY[%s::int],"
            " ARRAY[%s::timestamptz], ARRAY[%s::interval], NULL, ARRAY[%s::failure_policy])",
            *(
                task,
                queue,
                lock,
                given["priority"],
                given["at"],
                given["delay"],
                given["on_failure"],
            ),
        )
        assert isinstance(id, int)
        return id

    def sign_on(self, tasks: list[str] | None = None) -> UUID:
        ((self._worker,),) = self.query(
            "SELECT register_worker('w', 'host', 7, '{default}', 1, %s)", tasks
        )
        assert isinstance(self._worker, UUID)
        return self._worker

    def heartbeat(self) -> None:
        assert self.query("SELECT heartbeat(%s)", self._worker) == [(True,)]

    def claim(self) -> tuple[int, UUID]:
        """Start the next job."""
        ((id, claim_id),) = self.query(
            "SELECT id, claim_id FROM claim(%s, '{default}', 1)", self._worker or self.sign_on()
        )
        return id, claim_id

    def fail(self, claimed: tuple[int, UUID], delay: str | None, error: str) -> None:
        """Retry it after this delay, or never if it is None."""
        id, claim_id = claimed
        failure = json.dumps({"error": error})
        if delay is None:
            self.query(
                "SELECT finish(%s, '{default}', 0, ARRAY[%s::bigint], ARRAY[%s], '{failed}', "
                "ARRAY[%s::jsonb])",
                *(self._worker, id, claim_id, failure),
            )
        else:
            self.query(
                "SELECT retry(ARRAY[%s::bigint], ARRAY[%s], ARRAY[%s::interval], ARRAY[%s::jsonb])",
                *(id, claim_id, delay, failure),
            )

    def statuses(self) -> dict[int, str]:
        return {
            int(id): str(status)
            for id, status in self.query("SELECT id, status::text FROM all_jobs ORDER BY id")
        }
