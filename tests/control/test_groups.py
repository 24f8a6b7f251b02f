"""`app.groups`: from the option of a job to what workers start."""

import psycopg
import pytest

from inturn import App
from inturn.errors import BadArgument
from inturn.model import Group
from tests.conftest import Query


def test_a_worker_gives_each_group_its_turn(app: App) -> None:
    started: list[str] = []

    @app.task(group="large")
    async def tell(name: str) -> None:
        started.append(name)

    tell.batch_defer(*[{"name": "large"}] * 200)
    for name in ("small", "tiny"):
        tell.configure(group=name).batch_defer(*[{"name": name}] * 5)
    app.run_worker(concurrency=3)
    assert len(started) == 210
    last = max(number for number, name in enumerate(started) if name != "large")
    # A round has three jobs, and three slots begin with one round or two.
    assert last < 3 * 5 + 3


@pytest.mark.landing
def test_a_worker_that_runs_very_short_jobs_claims_none_ahead_while_groups_wait(app: App) -> None:
    """It would run them before the first job of a group that comes next."""
    started: list[str] = []

    @app.task
    async def tell(name: str) -> None:
        started.append(name)
        if len(started) == 300:
            await tell.configure(group="late").defer_async(name="late")

    tell.configure(group="large").batch_defer(*[{"name": "large"}] * 1000)
    app.run_worker(concurrency=1)
    assert started.index("late") == 300  # the next one


def test_weights_are_set_listed_and_removed(app: App, query: Query) -> None:
    app.groups.set("tenant:7", weight=3, by="eve")
    app.groups.set("tenant:*", weight=2)
    app.configure_task("t", group="tenant:1", allow_unknown=True).defer()
    assert app.groups.list() == [
        Group("tenant:*", 2, None, None),
        Group("tenant:1", 2, 1, 0),
        Group("tenant:7", 3, 0, 0),
    ]
    assert app.groups.remove("tenant:7", by="eve")
    assert not app.groups.remove("tenant:7")
    who = query("SELECT who, operation FROM lane_audit ORDER BY id")
    assert [who[0], who[-1]] == [("eve", "set-group"), ("eve", "remove-group")]


@pytest.mark.parametrize("weight", [0, -1, 1001, True, 1.5, "2", None])
def test_a_weight_that_makes_no_sense_is_refused_by_name(app: App, weight: int) -> None:
    with pytest.raises(BadArgument, match="weight"):
        app.groups.set("tenant:7", weight=weight)
    assert app.groups.list() == []


@pytest.mark.parametrize("pattern", ["", "a*b", "x" * 2000, 5.0])
def test_a_pattern_that_makes_no_sense_is_refused(app: App, pattern: str) -> None:
    with pytest.raises(BadArgument, match="pattern"):
        app.groups.set(pattern, weight=1)


@pytest.mark.parametrize("name", ["", "x" * 2000, "tenant:*", 1.5, "a\0b"])
def test_a_group_that_makes_no_sense_is_refused(app: App, query: Query, name: str) -> None:
    with pytest.raises(BadArgument, match="group"):
        app.configure_task("t", group=name, allow_unknown=True).defer()
    assert query("SELECT count(*) FROM jobs") == [(0,)]


@pytest.mark.parametrize("name", ["", "x" * 2000, "tenant:*"])
def test_sql_refuses_a_group_that_makes_no_sense(query: Query, name: str) -> None:
    with pytest.raises(psycopg.errors.InvalidParameterValue, match="group_key"):
        query("SELECT defer('t', group_key => %s)", name)
    with pytest.raises(psycopg.errors.CheckViolation):
        query("INSERT INTO jobs (created_at, status, task, group_key) "
              "VALUES (now(), 'todo', 't', %s)", name)  # fmt: skip


@pytest.mark.parametrize(
    "statement",
    ["SELECT set_group('a', 0)", "SELECT set_group('a*b', 1)", "SELECT set_group(NULL, 1)"],
)
def test_sql_refuses_weights_that_make_no_sense(query: Query, statement: str) -> None:
    with pytest.raises(psycopg.errors.InvalidParameterValue, match=r"weight|pattern"):
        query(statement)


def test_the_number_of_waiting_jobs_is_counted_up_to_a_thousand(app: App, query: Query) -> None:
    query(
        "INSERT INTO jobs (created_at, status, task, group_key, priority, lock) "
        "SELECT now(), 'todo', 't', 'a', n % 3, CASE WHEN n % 2 = 0 THEN 'lane ' || n END "
        "FROM generate_series(1, 3000) AS n RETURNING id"
    )
    [group] = app.groups.list()
    assert (group.waiting, group.weight) == (1000, 1)
