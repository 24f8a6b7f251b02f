"""Workers that die under load: a log of their starts shows that no limit was ever broken."""

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from random import Random

import psycopg
import pytest

from tests.race.harness import DECLARE_AND_RESCUE, Mutation, Stage

SLOTS, RATE, BURST, JOBS = 3, 40, 5, 150  # a rate in each second
WORKERS = 3
ROUNDING = 1e-6  # of a job

# Outside of the engine: a trigger writes when jobs of a key begin and stop to be `doing`.
OBSERVE = """
CREATE TABLE observed (at bigserial, key text, change integer, started_at timestamptz);
CREATE FUNCTION observe() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF TG_OP <> 'INSERT' AND old.status = 'doing' THEN
        INSERT INTO observed (key, change) VALUES (old.limit_key, -1);
    END IF;
    IF TG_OP = 'UPDATE' AND new.status = 'doing' THEN
        INSERT INTO observed (key, change, started_at)
        VALUES (new.limit_key, 1, new.started_at);
    END IF;
    RETURN NULL;
END $$;
CREATE TRIGGER observe AFTER UPDATE OR DELETE ON jobs
    FOR EACH ROW EXECUTE FUNCTION observe();
"""


def work(dsn: str, seed: int) -> None:
    """Be a worker that dies now and then, and another one that takes its place."""
    random = Random(seed)
    left = 1
    while left:
        with psycopg.connect(dsn, autocommit=True, options="-c search_path=inturn") as session:
            [[worker]] = session.execute(
                "SELECT register_worker('w', 'here', 1, NULL, 5)"
            ).fetchall()
            hand: list[tuple[int, object]] = []
            while left and random.random() < 0.97:
                hand += session.execute("SELECT id, claim_id FROM claim(%s, NULL, 4)", [worker])
                while hand and random.random() < 0.7:
                    end(session, worker, hand.pop(), random)
                [[left]] = session.execute("SELECT count(*) FROM jobs").fetchall()
            session.execute("DELETE FROM workers WHERE id = %s", [worker])
            session.execute(DECLARE_AND_RESCUE, ["1 day"])


def end(
    session: psycopg.Connection, worker: object, job: tuple[int, object], random: Random
) -> None:
    ids, claims = [job[0]], [job[1]]
    match random.randrange(5):
        case 0:
            session.execute("SELECT put_back(%s, %s)", [ids, claims])
        case 1:
            session.execute(
                "SELECT retry(%s, %s, ARRAY[interval '0'], ARRAY[NULL::jsonb])", [ids, claims]
            )
        case _:
            session.execute(
                "SELECT finish(%s, NULL, 4, %s, %s, '{succeeded}', ARRAY[NULL::jsonb])",
                [worker, ids, claims],
            )


def most_at_once(changes: Sequence[int]) -> int:
    now = most = 0
    for change in changes:
        now += change
        most = max(most, now)
    return most


def run_and_look(stage: Stage, rate: int = RATE) -> None:
    """Let dying workers do jobs of two limits. Raise AssertionError if the log breaks one."""
    person = stage.session()
    stage.control.execute(OBSERVE)
    person.run("SELECT set_limit('slots', %s)", SLOTS)
    person.run("SELECT set_limit('rate', NULL, %s, interval '1 s', %s)", rate, BURST)
    for number in range(JOBS):
        lock = None if number % 3 else f"lane {number % 7}"
        person.defer(lock, limit=("slots", "rate")[number % 2], on_retry="release")
    with ThreadPoolExecutor(WORKERS) as threads:
        for worker in [threads.submit(work, stage.dsn, seed) for seed in range(WORKERS)]:
            worker.result(120)

    changes = person.run("SELECT change FROM observed WHERE key = 'slots' ORDER BY at")
    assert most_at_once([change for (change,) in changes]) == SLOTS

    starts = person.run(
        "SELECT extract(epoch FROM started_at)::float8 FROM observed "
        "WHERE key = 'rate' AND change = 1 ORDER BY started_at"
    )
    times = [at for (at,) in starts]
    assert len(times) >= JOBS / 2
    for number, first in enumerate(times):
        for last, end in enumerate(times[number:], 1):
            assert last <= rate * (end - first) + BURST + ROUNDING


@pytest.mark.fresh_database
def test_no_log_of_dying_workers_shows_more_starts_than_the_limit_allows(stage: Stage) -> None:
    run_and_look(stage)


@pytest.mark.fresh_database
@pytest.mark.parametrize(
    ("old", "new", "rate"),
    [
        ("SET used = gates.used + part.starts", "SET used = gates.used", RATE),
        # A rate that a slow machine exceeds, too.
        ("tokens = part.tokens - part.starts", "tokens = part.tokens", 1),
    ],
    ids=["no slot is taken", "no token is taken"],
)
def test_the_log_shows_a_limit_that_is_broken(stage: Stage, old: str, new: str, rate: int) -> None:
    stage.mutate(Mutation("a limit is broken", "take_slots.sql", old, new))
    stage.control.execute("ALTER TABLE gates DROP CONSTRAINT gates_used")
    with pytest.raises(AssertionError):
        run_and_look(stage, rate)
