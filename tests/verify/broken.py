"""A queue that broke a promise, and the job that finds it."""

from inturn import App
from inturn.control.builtin_tasks import VERIFY
from tests.conftest import Query


def break_a_lane(query: Query) -> int:
    """Let a job have run beside another of its lane, and return its id."""
    [(first, second)] = query("SELECT defer('t', lock => 'a'), defer('t', lock => 'a')")
    [(worker,)] = query("SELECT register_worker('w', 'here', 1, '{default}', 1)")
    for id in (first, second):
        [(claim,)] = query("SELECT claim_id FROM claim(%s, '{default}', 1)", worker)
        query(
            "SELECT finish(%s, '{default}', 0, ARRAY[%s::bigint], ARRAY[%s], '{succeeded}', '{NULL}')",
            worker, id, claim,
        )  # fmt: skip
    query("SELECT unregister_worker(%s)", worker)
    query(
        "UPDATE finished_jobs SET finished_at = clock() + interval '1 s' WHERE id = %s RETURNING 1",
        first,
    )
    return int(second)


def run_nightly(app: App, query: Query) -> None:
    """Run the job of a schedule."""
    job = app.configure_task(f"builtin:{VERIFY}", allow_unknown=False).defer()
    app.run_worker()
    query(
        "INSERT INTO schedules (task, periodic_id, cron, tz, since, last_job_id) "
        "SELECT task, '', '0 3 * * *', 'UTC', clock(), id FROM finished_jobs WHERE id = %s "
        "RETURNING 1",
        job,
    )
