"""`python -m bench.handover`: compare hand-over with a claim and a finish for each job of a lane.

A hand-over is a finish whose reply brings the next job of the lane.
"""

from __future__ import annotations

import time
from statistics import median
from typing import Any

import psycopg

from bench.growth.costs import ONE_LANE, Queue
from bench.peers.registry import OURS, all_peers
from bench.processes import Process
from bench.server import Bed, bed

JOBS, ROUNDS = 1_500, 5
CLAIM = "SELECT id, claim_id FROM inturn.claim(%s, NULL, 1)"
FINISH = """
SELECT (next).id, (next).claim_id
FROM inturn.finish(
    %s, NULL, %s, ARRAY[%s::bigint], ARRAY[%s::uuid], '{succeeded}', ARRAY[NULL::jsonb]
)
WHERE finished_id IS NULL
"""


def main() -> None:
    with bed() as server:
        ratios = []
        for number in range(ROUNDS):
            apart, handed = _seconds(server, want=0), _seconds(server, want=1)
            ratios.append(apart / handed)
            print(
                f"{number + 1}: {apart / handed:.2f} times as fast as a claim and a finish",
                flush=True,
            )
        print(f"median {median(ratios):.2f}")


def _seconds(server: Bed, want: int) -> float:
    server.create("handover")
    try:
        peer = next(peer for peer in all_peers() if peer.name == OURS)
        Process(peer, "install", server.dsn("handover")).wait()
        with server.observe("handover") as connection:
            queue = Queue(connection)
            queue.load(JOBS, ONE_LANE)
            start = time.monotonic()
            _run(connection, queue.worker, want)
            return time.monotonic() - start
    finally:
        server.drop("handover")


def _run(connection: psycopg.Connection[Any], worker: object, want: int) -> None:
    """Run jobs until the lane is empty. When a hand-over brings no job, claim the next one."""
    job = connection.execute(CLAIM, [worker]).fetchone()
    while job is not None:
        job = connection.execute(FINISH, [worker, want, *job]).fetchone()
        if job is None:
            job = connection.execute(CLAIM, [worker]).fetchone()


if __name__ == "__main__":
    main()
