"""Ends of jobs that the database does not store yet are kept, and hold up nothing else."""

from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from functools import partial
from typing import LiteralString

import anyio
import psycopg
import pytest

from inturn import App, JobContext
from inturn.worker.reporting import MOST_REFUSED
from tests.conftest import Query, Until

pytestmark = [pytest.mark.anyio, pytest.mark.fresh_database]
ENDED = "SELECT FROM inturn.finished_jobs HAVING count(*) = %s"


@contextmanager
def changed(dsn: str, change: LiteralString, undo: LiteralString) -> Iterator[None]:
    with psycopg.connect(dsn, autocommit=True) as connection:
        connection.execute(change)
        yield
        connection.execute(undo)


def refused(dsn: str) -> AbstractContextManager[None]:
    """Refuse to end jobs whose argument is bad."""
    return changed(
        dsn,
        "CREATE FUNCTION refuse() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN "
        "IF NEW.args ->> 'name' LIKE 'bad%' THEN RAISE EXCEPTION 'not this one'; END IF; "
        "RETURN NEW; END $$; CREATE TRIGGER refuse BEFORE INSERT ON inturn.finished_jobs "
        "FOR EACH ROW EXECUTE FUNCTION refuse()",
        "DROP FUNCTION refuse CASCADE",
    )


async def test_a_job_whose_end_is_refused_holds_up_no_other(
    app: App, dsn: str, query: Query, until: Until, caplog: pytest.LogCaptureFixture
) -> None:
    ran: list[str] = []

    @app.task
    async def run(name: str) -> None:
        ran.append(name)

    names = ["bad", "good 1", "good 2", "good 3"]
    async with anyio.create_task_group() as group:
        with refused(dsn):
            run.batch_defer(*({"name": name} for name in names))
            group.start_soon(partial(app.run_worker_async, wait=True))
            await until(lambda: query(ENDED, 3))
            assert query("SELECT args ->> 'name' FROM inturn.jobs") == [("bad",)]
        await until(lambda: query(ENDED, 4))
        group.cancel_scope.cancel()
    assert sorted(ran) == names
    assert caplog.text.count("job.end_refused") == 1


async def test_a_worker_claims_no_more_if_all_ends_are_refused(
    app: App, dsn: str, query: Query, until: Until, caplog: pytest.LogCaptureFixture
) -> None:
    ran: list[str] = []

    @app.task
    async def run(name: str) -> None:
        ran.append(name)

    async with anyio.create_task_group() as group:
        with refused(dsn):
            run.batch_defer(*({"name": f"bad {number}"} for number in range(40)))
            group.start_soon(partial(app.run_worker_async, wait=True))
            await until(lambda: caplog.text.count("job.end_refused") > MOST_REFUSED)
            await anyio.sleep(0.5)
            assert len(ran) < 40
        await until(lambda: query(ENDED, 40))
        group.cancel_scope.cancel()
    assert len(ran) == len(set(ran)) == 40


async def test_a_job_that_has_told_its_progress_runs_once_although_it_cannot_be_stored(
    app: App, dsn: str, query: Query, until: Until, caplog: pytest.LogCaptureFixture
) -> None:
    ran: list[int] = []

    @app.task(pass_context=True)
    async def run(context: JobContext) -> None:
        ran.append(context.job.id)
        context.progress(1)

    async with anyio.create_task_group() as group:
        with changed(
            dsn,
            "ALTER FUNCTION inturn.report_progress RENAME TO gone",
            "ALTER FUNCTION inturn.gone RENAME TO report_progress",
        ):
            run.defer()
            group.start_soon(partial(app.run_worker_async, wait=True))
            await until(lambda: caplog.text.count("next try") > 1)
        await until(lambda: query(ENDED, 1))
        group.cancel_scope.cancel()
    assert len(ran) == 1
