"""`make bench-neighbours`: see what a crowd in another queue costs a worker.

A crowd is 100,000 jobs of another queue that become due, expire, lose their parent and so on at the
same instant, or 10,000 batches that end. Each run is compared with one of the same round without a
crowd. In `rate`, a worker that has run for some time gets free jobs one by one. In `lanes`, a warm
worker drains a full queue.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterator
from statistics import median
from typing import Any, LiteralString, NamedTuple

import psycopg
from rich.console import Console
from rich.table import Table

from bench.arena import Arena, Drained, await_warmth
from bench.jobs import FREE_JOBS, WARM, Load
from bench.peers import ours
from bench.peers.adapter import ROOT
from bench.server import bed

Session = psycopg.Connection[Any]
ALONE = "alone"
JOBS = 100_000
PART = 10_000  # jobs of a call that defers children
BATCHES = 10_000
KEYS = 100
BEFORE, PACED, PAUSE = 1_200, 1_000, 0.01  # jobs that a worker runs first, that count, and seconds
LANES, DRAINED = Load(1_000), 20_000
LIMIT = 300.0

DEFER = """
SELECT count(*) FROM inturn.defer_jobs(
    array_fill(%(task)s::text, ARRAY[%(count)s]), array_fill('{}'::jsonb, ARRAY[%(count)s]),
    array_fill('neighbour'::text, ARRAY[%(count)s]), NULL, NULL, NULL, NULL,
    p_expires_in => array_fill(%(expires_in)s::interval, ARRAY[%(count)s]),
    p_limit_keys => %(keys)s::text[],
    p_after => %(parents)s::bigint[], p_after_of => %(children)s::int[]
)
"""
DEFAULTS = {"task": "work"} | dict.fromkeys(("expires_in", "keys", "parents", "children"))
DEFER_BATCHES = """
SELECT count(inturn.close_batch(opened.id)) FROM (
    SELECT inturn.open_batch('crowd', 'work', queue => 'neighbour') AS id
    FROM generate_series(1, %s)
) AS opened
WHERE (SELECT count(*) FROM inturn.defer_jobs('{work}', '{"{}"}', '{neighbour}', NULL, NULL, NULL,
    NULL, p_batch_ids => ARRAY[opened.id])) > 0
"""
DELAY = "UPDATE inturn.jobs SET status = 'scheduled', scheduled_at = now() + interval '1 h'"
REGISTER = "SELECT inturn.register_worker('sql', 'bench', 1, '{neighbour}', 1)"
CLAIM = "SELECT id, claim_id FROM inturn.claim(%s, %s, 1000)"
ANY_SCHEDULED = "SELECT EXISTS (SELECT FROM inturn.jobs WHERE status = 'scheduled')"
FINISH = """
SELECT count(*) FROM inturn.finish(%s, '{nothing}', 0, %s::bigint[], %s::uuid[],
    array_fill('succeeded'::inturn.job_status, ARRAY[%s]), array_fill(NULL::jsonb, ARRAY[%s]))
"""

Happen = tuple[LiteralString, list[Any]]  # the statement with which it happens to the crowd


def become_due(session: Session) -> Happen:
    _defer(session)
    session.execute(DELAY)
    return "UPDATE inturn.jobs SET scheduled_at = now() WHERE queue = 'neighbour'", []


def expire(session: Session) -> Happen:
    _defer(session, expires_in="1 h")
    return "UPDATE inturn.jobs SET expires_at = now() WHERE queue = 'neighbour'", []


def get_a_parent(session: Session) -> Happen:
    """No claim has met the children before their parent ends."""
    return "SELECT inturn.cancel_job(%s)", [_defer_children(session)]


def lose_their_parent(session: Session) -> Happen:
    parent = _defer_children(session)
    worker = _get(session, REGISTER)
    while _get(session, ANY_SCHEDULED):
        session.execute(CLAIM, [worker, ["nothing"]])
    return "SELECT inturn.cancel_job(%s)", [parent]


def are_resumed(session: Session) -> Happen:
    session.execute("SELECT inturn.pause_task('other')")
    _defer(session, task="other")
    session.execute("UPDATE inturn.jobs SET status = 'paused'")
    return "SELECT inturn.resume_task('other')", []


def lose_their_limit(session: Session) -> Happen:
    session.execute("SELECT inturn.set_limit('key*', 1)")
    _defer(session, keys=[f"key{number % KEYS}" for number in range(JOBS)])
    for _ in _claim_all(session):
        pass
    return "SELECT inturn.remove_limit('key*')", []


def end_their_batch(session: Session) -> Happen:
    session.execute(DEFER_BATCHES, [BATCHES])
    claimed = list(_claim_all(session))
    worker, ids, claims = zip(*claimed, strict=True)
    return FINISH, [worker[0], list(ids), list(claims), len(ids), len(ids)]


CROWDS: dict[str, Callable[[Session], Happen]] = {
    "become due": become_due,
    "expire": expire,
    "are new, and come after a job": get_a_parent,
    "lose their parent": lose_their_parent,
    "were paused": are_resumed,
    "lose their limit": lose_their_limit,
    "end their batch": end_their_batch,
}


def _get(session: Session, statement: LiteralString) -> Any:
    return _get_first(session.execute(statement))


def _get_first(cursor: psycopg.Cursor[Any]) -> Any:
    row = cursor.fetchone()
    assert row is not None
    return row[0]


def _defer(session: Session, count: int = JOBS, **options: object) -> None:
    session.execute(DEFER, {**DEFAULTS, "count": count, **options})


def _defer_children(session: Session) -> int:
    parent = int(_get(session, "SELECT inturn.defer('work', queue => 'neighbour')"))
    for _ in range(JOBS // PART):
        _defer(session, PART, parents=[parent] * PART, children=[*range(1, PART + 1)])
    return parent


def _claim_all(session: Session) -> Iterator[tuple[Any, int, Any]]:
    """Claim what may start, and close the gates of the rest."""
    worker = _get(session, REGISTER)
    while rows := session.execute(CLAIM, [worker, ["neighbour"]]).fetchall():
        yield from ((worker, *row) for row in rows)


class Reading(NamedTuple):
    server_us: float  # CPU for a job
    waits: list[float]


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m bench.neighbours", description=__doc__)
    parser.add_argument("--rounds", type=int, default=1, help="how often to run everything [1]")
    given = parser.parse_args()
    log = Console(stderr=True)
    readings: dict[tuple[str, str], list[Reading]] = {}
    peer = ours.peer("inturn", ROOT, ours.ONE_QUEUE)
    with bed() as server:
        arena = Arena(server, peer)
        for number in range(given.rounds):
            for work, measure in (("rate", _pace), ("lanes", _drain)):
                for crowd in (ALONE, *CROWDS):
                    reading = _measure(arena, crowd, measure)
                    readings.setdefault((work, crowd), []).append(reading)
                    log.print(f"{number + 1} {work:<5} {crowd:<30} {reading.server_us:>6,.0f} µs")
    _show(readings)


def _measure(arena: Arena, crowd: str, measure: Callable[..., Reading]) -> Reading:
    with arena.fresh() as fresh, fresh.observe() as session:
        happen: Happen = CROWDS[crowd](session) if crowd in CROWDS else ("SELECT 1", [])
        session.execute("VACUUM (ANALYZE)")
        session.execute("CHECKPOINT")
        return measure(fresh, lambda: _let_happen(session, happen))


def _let_happen(session: Session, happen: Happen) -> None:
    done = session.execute(*happen)
    if done.rowcount < 1 or (done.description and not _get_first(done)):
        raise SystemExit(f"nothing happened to the crowd: {happen[0]}")


def _pace(arena: Arena, happen: Callable[[], object]) -> Reading:
    [worker] = arena.cold_workers(1, FREE_JOBS)
    worker.resume()
    arena.producer.one_by_one(BEFORE, first=WARM, pause=PAUSE)
    await_warmth(worker, BEFORE)
    happen()
    arena.producer.begin(count=PACED, pause=PAUSE)
    drained = _require_all(arena.drain([worker], PACED, LIMIT, settle=False))
    called = arena.producer.answer()["at"]
    waits = [ran.start - called[ran.number] for ran in drained.trace]
    return Reading(drained.server_cpu_seconds / PACED * 1e6, waits)


def _drain(arena: Arena, happen: Callable[[], object]) -> Reading:
    [worker] = arena.cold_workers(1, LANES)
    worker.resume()
    arena.producer.bulk(BEFORE, first=WARM, **LANES._asdict())
    await_warmth(worker, BEFORE)
    arena.pause(worker)
    arena.enqueue(DRAINED, LANES, calls=DRAINED // LANES.lanes)
    happen()
    drained = _require_all(arena.drain([worker], DRAINED, LIMIT, settle=False))
    return Reading(drained.server_cpu_seconds / DRAINED * 1e6, [])


def _require_all(drained: Drained) -> Drained:
    if drained.note:
        raise SystemExit(f"a worker beside a crowd: {drained.note}")
    return drained


def _show(readings: dict[tuple[str, str], list[Reading]]) -> None:
    table = Table(caption="each figure is divided by that of a run without a crowd; medians")
    for name in ("jobs that", "rate: server CPU", "p50", "p95", "lanes: server CPU"):
        table.add_column(name, justify="left" if name == "jobs that" else "right")
    for crowd in CROWDS:
        rate, lanes = (
            list(zip(readings[work, crowd], readings[work, ALONE], strict=True))
            for work in ("rate", "lanes")
        )
        ratios = (
            [mine.server_us / alone.server_us for mine, alone in rate],
            [_percentile(mine, 50) / _percentile(alone, 50) for mine, alone in rate],
            [_percentile(mine, 95) / _percentile(alone, 95) for mine, alone in rate],
            [mine.server_us / alone.server_us for mine, alone in lanes],
        )
        table.add_row(crowd, *(f"{median(each):.2f}" for each in ratios))
    Console(width=100).print(table)


def _percentile(reading: Reading, share: int) -> float:
    return sorted(reading.waits)[len(reading.waits) * share // 100]


if __name__ == "__main__":
    main()
