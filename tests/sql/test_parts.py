"""Several questions in one statement give what each of them gives alone."""

from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from typing import Annotated
from uuid import UUID

import psycopg
import pytest

from inturn.cli.database import Database
from inturn.operations.changes import pauses
from inturn.operations.engine import workers
from inturn.operations.reading.parts import SCHEMA, read_parts
from inturn.operations.reading.situation import get_situation

ID = "00000000-0000-0000-0000-000000000007"


@dataclass(frozen=True, slots=True)
class Row:
    id: UUID
    at: datetime | None
    took: timedelta | None
    names: list[str] | None


ROWS = """
SELECT %s::uuid AS id, at::timestamptz, extract(epoch FROM took::interval)::float8 AS took, names
FROM (VALUES (NULL, NULL, NULL), ('2030-01-01 12:00+02', '1 day 0.5 s', ARRAY['a', 'b']))
    AS item(at, took, names)
"""


@dataclass(frozen=True, slots=True)
class Found:
    rows: Annotated[list[Row], ROWS, ID]
    none: Annotated[list[Row], ROWS + " LIMIT 0", ID]
    pairs: Annotated[
        list[tuple[str, datetime]],
        "SELECT jsonb_build_array('a', '2030-01-01Z'::timestamptz) AS item",
    ]
    counts: Annotated[
        dict[str, tuple[int, bool]],
        "SELECT jsonb_build_object('held', jsonb_build_array(7, true))",
    ]
    schema: Annotated[str, "SELECT %s::text", SCHEMA]
    missing: Annotated[str | None, "SELECT NULL::text"]


@dataclass(frozen=True, slots=True)
class OneMore(Found):
    missing: Annotated[str | None, "SELECT 'found'::text"]
    now: Annotated[datetime, "SELECT timestamptz '2030-01-01Z'"]


@pytest.mark.parametrize("style", ["postgres", "iso_8601"])
def test_parts_have_the_types_of_their_fields(dsn: str, style: str) -> None:
    day = datetime(2030, 1, 1, tzinfo=UTC)
    length = timedelta(days=1, seconds=0.5)
    options = f"-c intervalstyle={style} -c timezone=Asia/Tokyo"
    with psycopg.connect(dsn, options=options) as connection:
        found = Database(connection, "inturn").run(read_parts(OneMore, "inturn"))
    assert found == OneMore(
        rows=[
            Row(UUID(ID), None, None, None),
            Row(UUID(ID), day + timedelta(hours=10), length, ["a", "b"]),
        ],
        none=[],
        pairs=[("a", day)],
        counts={"held": (7, True)},
        schema="inturn",
        missing="found",
        now=day,
    )


def test_the_situation_has_what_the_lists_have(dsn: str) -> None:
    with psycopg.connect(dsn) as connection:
        connection.execute("SELECT inturn.defer('t', lock => 'a'), inturn.pause_task('t')")
        connection.execute("SELECT inturn.pause_queue(NULL, 'why'), inturn.pause_queue('mail')")
        connection.execute(
            "SELECT inturn.register_worker('w', 'host', 7, '{mail}', 1, '{}', '{}', "
            "p_clock => now() + interval '40 days')"
        )
        database = Database(connection, "inturn")
        seen = database.run(get_situation("inturn"))
        [worker] = database.run(workers.list_workers(9))
        assert worker.clock_ahead is not None
        assert seen.workers == [worker]
        assert seen.queues == database.run(workers.list_queues())
        assert seen.paused_queues == database.run(pauses.list_paused_queues())
        assert seen.paused_tasks == database.run(pauses.list_paused_tasks())
        assert (seen.mismatch, len(seen.queues), len(seen.paused_queues)) == (None, 2, 2)
        assert replace(seen, served=[]).mismatch is not None
