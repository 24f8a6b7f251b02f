"""What makes no sense is refused by the argument's name, and nothing is written.

It is refused in the same way in Python, in SQL and on the command line.
"""

import re
from collections.abc import Callable, Iterator
from functools import partial
from itertools import product
from typing import Any

import psycopg
import pytest

from inturn import App
from inturn.errors import BadArgument
from tests.cli.calling import invoke
from tests.conftest import Query

LONG = "x" * 2_000
MANY = 100_000
TABLES = (
    "jobs",
    "edges",
    "limits",
    "gates",
    "groups",
    "batches",
    "batch_events",
    "lane_audit",
)


@pytest.fixture(autouse=True)
def _nothing_is_written(app: App, query: Query) -> Iterator[None]:
    """There is job 1, and batch 1 has ended. Everything else is refused."""
    app.task(name="work")(lambda: None)
    app.tasks["work"].defer()
    with app.batch("import"):
        pass
    app.run_worker()
    before = [query(f"SELECT * FROM {table} ORDER BY 1") for table in TABLES]
    yield
    assert [query(f"SELECT * FROM {table} ORDER BY 1") for table in TABLES] == before


# ---------------------------------------------------------------- Python

JOBS: dict[str, tuple[str, dict[str, Any]]] = {
    "limit of 2,000 bytes": ("limit has 2,000 bytes", {"limit": LONG}),
    "limit that is a pattern": ("limit: .* contains", {"limit": "customer:*"}),
    "group of 2,000 bytes": ("group has 2,000 bytes", {"group": LONG}),
    "group that is a pattern": ("group: .* contains", {"group": "tenant:*"}),
    "parent that never was": ("after: there is no job 999", {"after": 999}),
    "parent that comes next": ("after: there is no job 2", {"after": [1, 2]}),
    "parent twice": ("after: names a job twice", {"after": [1, 1]}),
    "100,000 parents": ("after: names 100,000 jobs", {"after": range(1, MANY + 1)}),
    "batch that never was": ("batch: there is no batch 999", {"batch": 999}),
    "batch that has ended": ("batch: batch 1 has ended", {"batch": 1}),
    "policy for parents": ("on_parent: 'wait' is not one of", {"on_parent": "wait"}),
}


WAYS: dict[str, Callable[[App, dict[str, Any]], object]] = {
    "defer": lambda app, options: app.tasks["work"].configure(**options).defer(),
    "batch_defer": lambda app, options: app.tasks["work"].configure(**options).batch_defer({}, {}),
    "configure_task": lambda app, options: app.configure_task("elsewhere", **options).defer(),
}


@pytest.mark.parametrize("way", WAYS)
def test_python_refuses_a_job(app: App, way: str) -> None:
    for problem, options in JOBS.values():
        with pytest.raises(BadArgument, match=f"^{problem}") as refused:
            WAYS[way](app, options)
        assert refused.value.argument in options


@pytest.mark.parametrize("options", [{"limit": LONG}, {"group": LONG}, {"on_parent": "wait"}])
def test_a_decorator_refuses_what_no_job_can_have(app: App, options: dict[str, Any]) -> None:
    with pytest.raises(BadArgument) as refused:
        app.task(name="other", **options)
    assert refused.value.argument in options
    assert "other" not in app.tasks


LIMITS: list[tuple[str, dict[str, Any]]] = [
    ("concurrency", {"concurrency": 0}),
    ("concurrency", {"concurrency": -1}),
    ("concurrency", {"concurrency": "5"}),
    ("concurrency", {}),
    ("rate", {"rate": "fast"}),
    ("rate", {"rate": "0/min"}),
    ("rate", {"rate": "-1/s"}),
    ("rate", {"rate": 5}),
    ("rate", {"rate": "9999999999/s"}),
    ("burst", {"rate": "1/s", "burst": 0}),
    ("burst", {"concurrency": 1, "burst": 2}),
]


def test_python_refuses_a_limit(app: App) -> None:
    for argument, options in LIMITS:
        with pytest.raises(BadArgument) as refused:
            app.limits.set("stripe", **options)
        assert refused.value.argument == argument, options


def test_python_refuses_a_pattern(app: App) -> None:
    calls: list[Callable[[Any], object]] = [
        partial(app.limits.set, concurrency=1),
        app.limits.remove,
        partial(app.groups.set, weight=1),
        app.groups.remove,
    ]
    patterns: list[Any] = [LONG, "", None, "a*b", b"x", "a\0b", "\ud800"]
    for call, pattern in product(calls, patterns):
        with pytest.raises(BadArgument) as refused:
            call(pattern)
        assert "pattern" in refused.value.argument
        assert "without a pattern" not in str(refused.value)


def test_a_callback_that_is_not_a_task_is_refused(app: App) -> None:
    callbacks: list[Any] = [7, "work", len]
    for callback in callbacks:
        with pytest.raises(BadArgument, match=r"^callback is a") as refused:
            app.batches.open("import", callback=callback)
        assert refused.value.argument == "callback"


# ---------------------------------------------------------------- SQL

DEFER = {
    "limit_key => repeat('x', 2000)": "limit_key: give 1 to 1,024 bytes",
    "group_key => repeat('x', 2000)": "group_key: give 1 to 1,024 bytes",
    "after => '{999}'": "after: there is no job 999",
    "after => ARRAY(SELECT last_value + 1 FROM jobs_id_seq)": "after: there is no job",
    "after => '{1,1}'": "after: a job is named twice",
    "batch_id => 999": "batch: there is no batch 999",
    "batch_id => 1": "batch: batch 1 has ended",
}
DEFER_JOBS = {
    "p_limit_keys => ARRAY[repeat('x', 2000)]": "jobs_limit_key",
    "p_limit_keys => '{a*}'": "jobs_limit_key",
    "p_group_keys => ARRAY[repeat('x', 2000)]": "jobs_group_key",
    "p_after => '{999}', p_after_of => '{1}'": "after: there is no job 999",
    "p_after => ARRAY(SELECT last_value + 1 FROM jobs_id_seq), p_after_of => '{1}'": "after: there "
    "is no job",
    "p_after => '{1,1}', p_after_of => '{1,1}'": "after: a job is named twice",
    "p_after => '{1}', p_after_of => '{2}'": "after: for each parent, say to which job",
    "p_after => '{1}'": "after: for each parent, say to which job",
    "p_batch_ids => '{999}'": "batch: there is no batch 999",
    "p_batch_ids => '{1}'": "batch: batch 1 has ended",
}


MANY_PARENTS = "after: a job comes after at most 1,000"
OPERATORS = [
    ("concurrency: ", "set_limit('a', 0)"),
    ("concurrency: ", "set_limit('a')"),
    ("rate: ", "set_limit('a', NULL, 0, '1 s')"),
    ("rate: ", "set_limit('a', NULL, 1, '-1 s')"),
    ("rate: ", "set_limit('a', NULL, 1)"),
    ("pattern: ", "set_limit(repeat('x', 2000), 1)"),
    ("pattern: ", "set_limit(NULL, 1)"),
    ("pattern: ", "set_group(repeat('x', 2000), 1)"),
    ("weight: ", "set_group('a', 0)"),
    ("weight: ", "set_group('a', NULL)"),
    ("name: ", "open_batch(repeat('x', 2000))"),
    ("name: ", "open_batch(NULL)"),
    ("task: ", "open_batch('import', '')"),
]
NEW = "SELECT * FROM defer_jobs('{work}', ARRAY['{}'::jsonb], NULL, NULL, NULL, NULL, NULL, "


def test_sql_refuses_a_job(query: Query) -> None:
    for argument, problem in DEFER.items():
        with pytest.raises(psycopg.errors.InvalidParameterValue, match=f"^{problem}"):
            query(f"SELECT defer('work', {argument})")
    for argument, problem in DEFER_JOBS.items():
        with pytest.raises(psycopg.DatabaseError, match=problem):
            query(f"{NEW}{argument})")


def test_sql_refuses_100_000_parents(query: Query) -> None:
    query("SELECT setval('jobs_id_seq', 200000)")  # so many jobs may have been
    parents = "ARRAY(SELECT generate_series(1, 100000))"
    with pytest.raises(psycopg.errors.InvalidParameterValue, match=f"^{MANY_PARENTS}"):
        query(f"SELECT defer('work', after => {parents})")
    with pytest.raises(psycopg.errors.InvalidParameterValue, match=f"^{MANY_PARENTS}"):
        query(f"{NEW}p_after => {parents}, p_after_of => array_fill(1, '{{100000}}'))")


def test_sql_refuses_what_an_operator_sets(query: Query) -> None:
    for problem, call in OPERATORS:
        with pytest.raises(psycopg.errors.InvalidParameterValue, match=f"^{problem}"):
            query(f"SELECT {call}")


# ---------------------------------------------------------------- the command line

COMMANDS: dict[str, tuple[str, ...]] = {
    "limit has 2,000 bytes": ("defer", "work", "--limit", LONG),
    "group has 2,000 bytes": ("defer", "work", "--group", LONG),
    "limit is empty": ("defer", "work", "--limit", ""),
    "group: .* contains": ("defer", "work", "--group", "tenant:*"),
    "after: there is no job 999": ("defer", "work", "--after", "999"),
    "after: there is no job 2": ("defer", "work", "--after", "1", "--after", "2"),
    "after: names a job twice": ("defer", "work", "--after", "1", "--after", "1"),
    "--after": ("defer", "work", "--after", "0"),
    "after: names 2,000 jobs": (
        "defer", "work", *(word for id in range(2_000) for word in ("--after", str(id + 1)))
    ),
    "batch: there is no batch 999": ("defer", "work", "--batch", "999"),
    "batch: batch 1 has ended": ("defer", "work", "--batch", "1"),
    "--on-parent": ("defer", "work", "--on-parent", "wait"),
    "concurrency: 0": ("limits", "set", "a", "--concurrency", "0"),
    "--concurrency": ("limits", "set", "a", "--concurrency", "many"),
    "Give --concurrency, --rate or --burst": ("limits", "set", "a"),
    "rate: 'fast' is not a rate": ("limits", "set", "a", "--rate", "fast"),
    "rate: 0": ("limits", "set", "a", "--rate", "0/min"),
    "burst": ("limits", "set", "a", "--concurrency", "1", "--burst", "2"),
    "pattern has 2,000 bytes": ("limits", "set", LONG, "--concurrency", "1"),
    "pattern is missing": ("groups", "set", "", "--weight", "1"),
    "weight: 0": ("groups", "set", "a", "--weight", "0"),
}  # fmt: skip


def test_a_command_refuses_it(dsn: str) -> None:
    for problem, words in COMMANDS.items():
        ended = invoke(*words, "--dsn", dsn)
        assert ended.returncode == 2, ended.output
        assert re.search(problem, ended.stderr), problem
