"""`inturn.defer(…)` defers a job from SQL as documented, and explains bad arguments."""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psycopg
import pytest
from psycopg.errors import InvalidParameterValue, InvalidTextRepresentation, UniqueViolation

from inturn import App
from inturn.errors import ConnectorException

DOCS = (Path(__file__).parents[2] / "docs" / "sql.md").read_text(encoding="utf-8")
EXAMPLES = re.findall(r"```sql\n(.*?)```", DOCS, re.DOTALL)


@pytest.fixture
def connection(dsn: str) -> Iterator[psycopg.Connection[Any]]:
    """A connection of a user who does not know the schema."""
    with psycopg.connect(dsn, autocommit=True) as connection:
        yield connection


def jobs(connection: psycopg.Connection[Any]) -> list[Any]:
    return connection.execute(
        "SELECT task, args, lock, queue, priority, queueing_lock, status::text FROM inturn.jobs "
        "ORDER BY id"
    ).fetchall()


def test_the_first_example_defers_what_a_worker_then_runs(
    dsn: str, connection: psycopg.Connection[Any]
) -> None:
    seen: list[str] = []
    app = App(dsn)

    @app.task(name="app.write")
    def write(letter: str) -> None:
        seen.append(letter)

    connection.execute(EXAMPLES[0].encode())
    assert jobs(connection) == [
        ("app.write", {"letter": "a"}, "alphabet", "default", 0, None, "todo")
    ]
    app.run_worker(wait=False, install_signal_handlers=False)
    assert seen == ["a"]


@pytest.mark.fresh_database
def test_the_trigger_of_the_example_defers_one_job_however_often_a_row_changes(
    connection: psycopg.Connection[Any],
) -> None:
    connection.execute("CREATE TABLE orders (id int, state text)")
    connection.execute(EXAMPLES[1].encode())
    with connection.transaction():
        connection.execute("INSERT INTO orders VALUES (1, 'new'), (2, 'new')")
        connection.execute("UPDATE orders SET state = 'paid'")
    with connection.transaction(force_rollback=True):
        connection.execute("INSERT INTO orders VALUES (3, 'never was')")
    assert [(args, queueing_lock) for _, args, _, _, _, queueing_lock, _ in jobs(connection)] == [
        ({"order_id": 1}, "print:1"),
        ({"order_id": 2}, "print:2"),
    ]


def test_every_option_arrives(connection: psycopg.Connection[Any]) -> None:
    call = """SELECT inturn.defer('t', lock => 'l', queue => 'q', priority => 5, scheduled_at => now() + interval '1 h',
                                  queueing_lock => 'k', on_retry => 'release', on_failure => 'halt')"""
    (id,) = connection.execute(call.encode()).fetchone() or (None,)
    assert jobs(connection) == [("t", {}, "l", "q", 5, "k", "scheduled")]
    rows = connection.execute(
        "SELECT id, on_retry::text, on_failure::text FROM inturn.jobs"
    ).fetchall()
    assert rows == [(id, "release", "halt")]


def test_a_conflict_is_an_error_or_the_other_job(connection: psycopg.Connection[Any]) -> None:
    ask = "SELECT inturn.defer('t', %s::jsonb, queueing_lock => 'k', on_conflict => %s)"
    (id,) = connection.execute(ask, ['{"n": 1}', "raise"]).fetchone() or (None,)
    with pytest.raises(UniqueViolation, match=f"job {id} already waits under queueing_lock 'k'"):
        connection.execute(ask, ['{"n": 2}', "raise"])
    assert connection.execute(ask, ['{"n": 3}', "skip"]).fetchone() == (id,)
    assert jobs(connection)[0][1] == {"n": 1}
    assert connection.execute(ask, ['{"n": 4}', "replace"]).fetchone() == (id,)
    assert [args for _, args, *_ in jobs(connection)] == [{"n": 4}]


# Each with the constraint that would refuse it too, in its own words.
BAD: list[tuple[str, str, str]] = [
    ("''", "task: give its name", "jobs_task_length"),
    ("NULL", "task: give its name", ""),
    ("repeat('x', 513)", "task: give its name", "jobs_task_length"),
    ("'t', '[1]'", "args: give a JSON object", "jobs_args_object"),
    ("'t', NULL", "args: give a JSON object", ""),
    (
        "'t', jsonb_build_object('text', repeat('x', 1048576))",
        "args: 1,048,588 bytes of JSON, at most 1,048,576",
        "",
    ),
    ("'t', lock => ''", "lock: give 1 to 1,024 bytes", "jobs_lock_length"),
    ("'t', lock => repeat('é', 513)", "lock: give 1 to 1,024 bytes", "jobs_lock_length"),
    (
        "'t', queueing_lock => ''",
        "queueing_lock: give 1 to 1,024 bytes",
        "jobs_queueing_lock_length",
    ),
    ("'t', queue => 'a,b'", "queue: give 1 to 63 letters", "jobs_queue_name"),
    ("'t', queue => NULL", "queue: give 1 to 63 letters", ""),
    ("'t', priority => NULL", "priority: give a whole number", ""),
    (
        "'t', scheduled_at => 'infinity'",
        "scheduled_at: give a time between",
        "jobs_scheduled_within",
    ),
    (
        "'t', scheduled_at => '-infinity'",
        "scheduled_at: give a time between",
        "jobs_scheduled_within",
    ),
    (
        "'t', expires_at => 'infinity'",
        "expires_at: give a time between",
        "jobs_expires_within",
    ),
    (
        "'t', expires_at => '2030-01-01', scheduled_at => '2030-01-01'",
        "expires_at: give a time after scheduled_at",
        "",
    ),
    ("'t', after => '{1}'", "after: there is no job 1", ""),
    ("'t', after => '{0}'", "after: there is no job 0", ""),
    ("'t', after => '{NULL}'", "after: there is no job NULL", ""),
    ("'t', on_parent => 'wait', after => '{}'", 'enum .*parent_policy: "wait"', ""),
    ("'t', limit_key => ''", "limit_key: give 1 to 1,024 bytes without", "jobs_limit_key"),
    ("'t', limit_key => 'a*'", "limit_key: give 1 to 1,024 bytes without", "jobs_limit_key"),
    ("'t', group_key => ''", "group_key: give 1 to 1,024 bytes without", "jobs_group_key"),
    ("'t', group_key => 'a*'", "group_key: give 1 to 1,024 bytes without", "jobs_group_key"),
    ("'t', timeout => '0'", "timeout: give how long", "jobs_timeout"),
    ("'t', queueing_lock => 'k', on_conflict => NULL", "on_conflict: give raise, skip", ""),
    ("'t', timeout => '366 days'", "timeout: give how long", "jobs_timeout"),
    ("'t', headers => '[1]'", "headers: give a JSON object", "jobs_headers"),
    (
        "'t', headers => jsonb_build_object('text', repeat('x', 16384))",
        "headers: give at most 8,192 bytes",
        "jobs_headers",
    ),
    ("'t', on_conflict => 'ignore'", 'enum .*conflict_policy: "ignore"', ""),
    ("'t', on_retry => 'wait'", 'enum .*retry_policy: "wait"', ""),
]


@pytest.mark.parametrize(
    ("arguments", "message"), [(arguments, message) for arguments, message, _ in BAD]
)
def test_a_wrong_argument_is_refused_and_named(
    connection: psycopg.Connection[Any], arguments: str, message: str
) -> None:
    with pytest.raises((InvalidParameterValue, InvalidTextRepresentation), match=message):
        connection.execute(f"SELECT inturn.defer({arguments})".encode())
    assert jobs(connection) == []


LARGE = "jsonb_build_object('text', repeat('x', 2097152))"


@pytest.mark.parametrize(
    "call",
    [
        f"defer_job('t', {LARGE}, 'default', NULL, 0, NULL, NULL, 'hold', 'continue', NULL)",
        f"defer_jobs('{{t,t}}', ARRAY['{{}}', {LARGE}], '{{default,default}}', NULL, '{{0,0}}', NULL, NULL)",
        f"defer_jobs('{{t}}', ARRAY[{LARGE}], '{{default}}', NULL, '{{0}}', NULL, NULL, p_queueing_locks => '{{k}}')",
    ],
    ids=["one", "many", "under a queueing lock"],
)
def test_no_function_that_defers_takes_arguments_without_a_limit(
    connection: psycopg.Connection[Any], call: str
) -> None:
    with pytest.raises(
        InvalidParameterValue, match="args: 2,097,164 bytes of JSON, at most 2,097,152"
    ):
        connection.execute(f"SELECT inturn.{call}".encode())
    assert jobs(connection) == []


def test_a_few_numbers_of_many_digits_are_too_large_too(
    connection: psycopg.Connection[Any],
) -> None:
    """Stored, each takes 16 bytes, but every reader gets all of its digits."""
    digits = "jsonb_build_object('n', array_fill(1e131071, ARRAY[%s]))"
    call = f"SELECT inturn.defer_job('t', {digits}, 'default', NULL, 0, NULL, NULL, 'hold', 'continue', NULL)"
    for count in range(1, 17):
        size = len(str(connection.execute(f"SELECT {digits}::text".encode(), [count]).fetchone()))
        if size > 2**21:
            with pytest.raises(InvalidParameterValue, match="args: "):
                connection.execute(call.encode(), [count])
        else:
            connection.execute(call.encode(), [count])
    (longest,) = connection.execute(
        "SELECT max(octet_length(args::text)) FROM inturn.jobs"
    ).fetchone() or (None,)
    assert longest is not None
    assert longest <= 2**21


@pytest.mark.landing
def test_the_database_accepts_everything_that_python_accepts(
    dsn: str, connection: psycopg.Connection[Any]
) -> None:
    """PostgreSQL writes a list of digits half as long again."""
    most, refusals = 524_200, []
    digits, text = {"digits": [1] * most}, {"text": "é" * most}
    with App(dsn).open() as app:
        task = app.configure_task("t")
        for defer in (lambda: task.defer(**digits), lambda: task.batch_defer(digits, text)):
            try:
                defer()
            except ConnectorException as error:
                refusals.append(str(error))
    assert refusals == []
    lengths = (
        "SELECT coalesce(jsonb_array_length(args -> 'digits'), length(args ->> 'text')) "
        "FROM inturn.jobs"
    )
    assert connection.execute(lengths).fetchall() == [(most,)] * 3


def test_every_constraint_on_new_jobs_has_an_error_message_of_its_own(
    connection: psycopg.Connection[Any],
) -> None:
    of_the_engine = {
        "jobs_live",
        "jobs_claimed",
        "jobs_owned",
        "jobs_blocked_in_a_lane",
        "jobs_limited_by",
        "jobs_scheduled_when",
    }
    rows = connection.execute(
        "SELECT conname FROM pg_constraint WHERE contype = 'c' AND connamespace = "
        "'inturn'::regnamespace AND (contypid <> 0 OR conrelid = 'inturn.jobs'::regclass)"
    ).fetchall()
    assert {name for (name,) in rows} - of_the_engine == {
        constraint for *_, constraint in BAD if constraint
    }


@pytest.mark.parametrize("queueing_locks", ["NULL", "'{k,l}'"], ids=["free", "queueing locks"])
def test_a_column_left_out_of_a_batch_means_the_default_of_each_job(
    connection: psycopg.Connection[Any], queueing_locks: str
) -> None:
    call = (
        "SELECT inturn.defer_jobs('{t,t}', ARRAY[jsonb '{}', '{}'], NULL, NULL, NULL, NULL, NULL, "
        f"p_queueing_locks => {queueing_locks})"
    )
    connection.execute(b"LISTEN inturn")
    connection.execute(
        b"SELECT inturn.register_worker('w', 'h', 1, '{default}', 1, '{}')"  # it is asleep
    )
    connection.execute(call.encode())
    assert [(queue, priority) for _, _, _, queue, priority, _, _ in jobs(connection)] == [
        ("default", 0),
        ("default", 0),
    ]
    (heard,) = connection.notifies(timeout=60, stop_after=1)
    assert heard.payload == "default"
