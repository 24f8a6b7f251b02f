"""Whatever a job was given is still there when it has ended, and when it has come back."""

from collections.abc import Iterator
from contextlib import closing
from typing import Any

import pytest

from tests.cli.engine import Engine

# A value for each argument of `defer`. A new one needs a value here.
GIVEN: dict[str, object] = {
    "task": "shop.pay",
    "args": '{"order": 7}',
    "queue": "mail",
    "priority": 3,
    "scheduled_at": "2020-01-01T00:00:00+00:00",
    "queueing_lock": "pay",
    "on_retry": "release",
    "on_failure": "continue",
    "timeout": "00:00:05",
    "expires_at": "2099-01-01T00:00:00+00:00",
    "limit_key": "bank",
    "group_key": "ann",
    "batch_id": 1,
    "locks": ["a", "b"],
    "shared": ["b"],
    "headers": '{"trace": "1"}',
}
ELSEWHERE = {"lock", "on_conflict", "after", "on_parent"}  # instead of `locks`, or of the call
LIFE = {"status", "attempts", "started_at", "worker_id", "fence", "errors"}  # what changes
BACK = {"back_id", "scheduled_at", "has_children", "was_attempted", "delayed_at"}  # it is due again


@pytest.fixture
def engine(dsn: str) -> Iterator[Engine]:
    with closing(Engine(dsn)) as engine:
        yield engine


def row(engine: Engine, table: str, id: int) -> dict[str, Any]:
    [(found,)] = engine.query(f"SELECT to_jsonb({table}) FROM {table} WHERE id = %s", id)
    return dict(found)


def defer(engine: Engine, without: str, **more: object) -> int:
    given = {name: value for name, value in (GIVEN | more).items() if name != without}
    names = ", ".join(f"{name} => %s" for name in given)
    [(id,)] = engine.query(f"SELECT defer({names})", *given.values())
    return int(id)


def test_each_argument_of_defer_has_a_value_here(engine: Engine) -> None:
    [(names,)] = engine.query("SELECT proargnames FROM pg_proc WHERE proname = 'defer'")
    assert set(names) == GIVEN.keys() | ELSEWHERE


@pytest.mark.parametrize("without", ["batch_id", "queueing_lock"])  # a job has one of them
def test_a_job_that_ends_and_comes_back_keeps_all_that_it_was_given(
    engine: Engine, without: str
) -> None:
    engine.query("SELECT open_batch('import')")
    id = defer(engine, without)
    new = row(engine, "jobs", id)
    assert [name for name in GIVEN if new[name] is None] == [without]
    [(worker,)] = engine.query("SELECT register_worker('w', 'h', 1, NULL, 1)")
    [(claim,)] = engine.query("SELECT claim_id FROM claim(%s, NULL, 1)", worker)
    engine.query(
        "SELECT finish(%s, NULL, 0, ARRAY[%s::bigint], ARRAY[%s], '{failed}', '{null}')",
        *(worker, id, claim),
    )
    ended = row(engine, "finished_jobs", id)
    kept = new.keys() & ended.keys() - LIFE
    assert GIVEN.keys() <= kept
    assert {name: ended[name] for name in kept} == {name: new[name] for name in kept}
    engine.query("SELECT retry_job(%s)", id)
    back = row(engine, "jobs", id)
    kept = new.keys() - LIFE - BACK
    assert {name: back[name] for name in kept} == {name: new[name] for name in kept}


def test_a_job_that_comes_after_others_has_all_that_it_was_given(engine: Engine) -> None:
    engine.query("SELECT open_batch('import')")
    [(parent,)] = engine.query("SELECT defer('parent')")
    new = defer(engine, "queueing_lock")
    child = defer(engine, "queueing_lock", after=[parent])
    one, other = row(engine, "jobs", new), row(engine, "jobs", child)
    own = {"id", "status", "created_at", "has_parents", "delayed_at"}
    assert {name: one[name] for name in one.keys() - own} == {
        name: other[name] for name in one.keys() - own
    }
