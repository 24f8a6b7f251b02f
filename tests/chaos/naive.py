"""Broken workers that the harness must catch: CHAOS_… python -m tests.chaos.naive MODE

lanes: claims what waits, in order, and ignores lanes, limits, parents, groups and batches.
early: acknowledges a job before it runs it, one at a time, so that nothing else is wrong.
"""

import os
import signal
import sys
import threading
import time
from types import SimpleNamespace
from typing import Any
from uuid import uuid4

import psycopg

from tests.chaos.work import noted

CLAIM = """
UPDATE inturn.jobs SET status = 'doing', claim_id = gen_random_uuid(), worker_id = %s, fence = nextval('inturn.fences'),
    attempts = attempts + 1, started_at = now()
WHERE id = (SELECT id FROM inturn.jobs WHERE status <> 'doing' AND (status <> 'scheduled' OR scheduled_at <= now())
            ORDER BY id LIMIT 1 FOR UPDATE SKIP LOCKED)
RETURNING id, fence, lock, attempts, args
"""
SHARED = """
SELECT string_agg(quote_ident(column_name), ', ') FROM information_schema.columns AS kept
WHERE table_schema = 'inturn' AND table_name = 'finished_jobs' AND column_name <> 'status' AND EXISTS (
    SELECT FROM information_schema.columns AS live
    WHERE live.table_schema = 'inturn' AND live.table_name = 'jobs' AND live.column_name = kept.column_name)
"""
FORGET = "DELETE FROM inturn.batch_events; DELETE FROM inturn.batches"
SLOTS = {"lanes": 4, "early": 1}
STOPPING = threading.Event()


class Naive:
    def __init__(self, mode: str) -> None:
        self.mode, self.id = mode, uuid4()

    def work(self) -> None:
        with psycopg.connect(os.environ["INTURN_DSN"], autocommit=True) as connection:
            row = connection.execute(SHARED).fetchone()
            assert row is not None
            shared = row[0]
            finish = f"""
                WITH gone AS (DELETE FROM inturn.jobs WHERE id = %s RETURNING *)
                INSERT INTO inturn.finished_jobs ({shared}, status, finished_at) SELECT {shared}, 'succeeded', now() FROM gone
            """
            while not STOPPING.is_set():
                claimed = connection.execute(CLAIM, [self.id]).fetchone()
                if claimed is None:
                    connection.execute(FORGET)
                    time.sleep(0.01)
                    continue
                if self.mode == "early":
                    connection.execute(finish, [claimed[0]])
                    self.run(*claimed)
                else:
                    self.run(*claimed)
                    connection.execute(finish, [claimed[0]])

    def run(
        self, id: int, fence: int, lock: str | None, attempts: int, args: dict[str, Any]
    ) -> None:
        context = SimpleNamespace(
            job=SimpleNamespace(id=id, fence=fence, lock=lock, attempts=attempts - 1)
        )
        with noted(context, args["op"], args["index"]):  # type: ignore[arg-type]
            time.sleep(min(args["seconds"], 0.05))


if __name__ == "__main__":
    signal.signal(signal.SIGTERM, lambda *_: STOPPING.set())
    mode = sys.argv[1]
    threads = [threading.Thread(target=Naive(mode).work) for _ in range(SLOTS[mode])]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
