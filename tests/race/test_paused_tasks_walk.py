"""Random walks: whatever happens, no job of a paused task starts, and none sleeps for ever.

The walks of the limits, in which jobs are of several tasks that people pause and resume. At the
end, the reconciler must find nothing, and a new worker must get every job that is left.
"""

from typing import Any

import psycopg
import pytest

from tests.race.harness import Job, Mutation, PromiseBroken, Stage, promise
from tests.race.test_limits_walk import KEYS, LOCKS, STEPS, Walk
from tests.race.walks import run_walk

TASKS = ("mail", "bank", "other")


class TaskWalk(Walk):
    """A walk in which some tasks are paused. A claim that began before a pause may still start."""

    def defer(self) -> None:
        pick = self.random.choice
        if self.random.random() < 0.3:
            self.person.defer_several(
                "a",
                self.random.choice("bc"),
                shared=pick([(), ("a",)]),
                task=pick(TASKS),
                on_retry=pick(["hold", "release"]),
                limit=pick(KEYS),
            )
            return
        self.person.defer(
            pick(LOCKS),
            *[self.random.randrange(3) for _ in range(self.random.randrange(1, 4))],
            queue=pick(["default", "default", "x"]),
            limit=pick(KEYS),
            on_retry=pick(["hold", "release"]),
            task=pick(TASKS),
        )

    def step(self) -> None:
        if self.open is None and self.random.random() < 0.15:
            self.pause_or_resume()
        super().step()

    def pause_or_resume(self) -> None:
        task, until = self.random.choice(TASKS), self.random.choice([None, None, "1 ms"])
        if self.random.random() < 0.5:
            self.person.run("SELECT pause_task(%s, NULL, clock() + %s::interval)", task, until)
        else:
            self.person.run("SELECT resume_task(%s)", task)

    def claim(self) -> None:
        paused = self.paused()
        worker = self.random.choice([each for each in self.workers if each is not self.open])
        jobs = worker.claim(self.random.randrange(1, 5), slots=self.random.choice([None, 0, 1, 2]))
        self.hands[worker] += jobs
        self.check_started(jobs, paused)

    def end(self) -> None:
        paused = self.paused()
        before = {job for jobs in self.hands.values() for job in jobs}
        super().end()
        after = [job for jobs in self.hands.values() for job in jobs if job not in before]
        self.check_started(after, paused)

    def check_started(self, jobs: list[Job], paused: set[str]) -> None:
        paused &= self.paused()  # one may have ended by itself
        rows = self.stage.control.execute(
            "SELECT id, task FROM jobs WHERE id = ANY (%s)", [[job.id for job in jobs]]
        ).fetchall()
        wrong = [id for id, task in rows if task in paused]
        promise(not wrong, f"{wrong} started although their task is paused")

    def paused(self) -> set[str]:
        rows: list[Any] = self.stage.control.execute("SELECT task FROM paused_tasks").fetchall()
        return {task for (task,) in rows}

    def check(self) -> None:
        super().check()
        if self.open is None:
            ((lost,),) = self.stage.control.execute(
                "SELECT count(*) FROM jobs WHERE status = 'paused' "
                "AND task NOT IN (SELECT task FROM task_pauses)"
            ).fetchall()
            promise(lost == 0, "a job is aside, and no pause will end it")

    def settle(self) -> None:
        if self.open is not None:
            self.open.commit()
            self.open = None
        for task in TASKS:
            self.person.run("SELECT resume_task(%s)", task)
        super().settle()


def run_walks(stage: Stage) -> None:
    for seed in range(50):
        run_walk(TaskWalk(stage, seed), STEPS)


@pytest.mark.parametrize("seed", range(12))
def test_no_job_of_a_paused_task_starts_or_sleeps_whatever_happens(stage: Stage, seed: int) -> None:
    run_walk(TaskWalk(stage, seed), STEPS)


@pytest.mark.parametrize(
    ("file", "old", "new"),
    [
        ("claim.sql", "IF v_limited OR v_aside <> '{}' THEN", "IF v_limited THEN"),
        ("claim.sql", "v_paused := paused_task_names();", "NULL;"),
        ("handover_candidates.sql", "AND head.task NOT IN (SELECT unnest(p_paused))", ""),
        ("handover_candidates.sql", "AND NOT head.aside", ""),
        ("set_aside.sql", "FOR KEY SHARE SKIP LOCKED", ""),
        ("set_aside.sql", "PERFORM leave_looks(v_keys) WHERE v_keys IS NOT NULL;", ""),
        ("lane_is_stranded.sql", "status IN ('limited', 'paused')", "status = 'limited'"),
    ],
    ids=lambda value: value if value.endswith(".sql") else "",
)
def test_a_walk_finds_a_protection_that_is_missing(
    stage: Stage, file: str, old: str, new: str
) -> None:
    stage.mutate(Mutation("a protection is missing", file, old, new))
    with pytest.raises((PromiseBroken, psycopg.Error)):
        run_walks(stage)
