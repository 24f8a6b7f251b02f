"""Every way in which a lane can stand still: how it comes about, who names it, and what ends it."""

import signal
from collections.abc import Callable
from dataclasses import dataclass

import psycopg

from tests.oncall.scene import LANE, OTHER, Scene

Make = Callable[[Scene], int]  # returns a job that does not run, and will once the lane moves
# Options of a worker that takes nothing over from one that a busy machine makes late.
TRUSTING = "--stalled-after 3600"


@dataclass(frozen=True)
class Kind:
    """A way to stand still, and what each face says about it.

    `metric` is above 0. `explain` is the reason of the job, and `top` is the state of its lane, or
    a part of the look that is not empty. `command` is how the command begins that ends it. If
    none is printed, `ends` is what happens elsewhere, and `says` is how explain announces that.
    """

    metric: str
    alert: str
    doctor: str
    explain: str
    top: str
    command: str | None
    ends: Callable[[Scene], object] = lambda _: None
    says: str = ""
    shows: str = LANE  # what the command of the alert shows


def go_behind(scene: Scene, **options: object) -> int:
    job = scene.defer("send", **options)
    scene.age()
    return job


# ---------------------------------------------------------------- stopped


def halted(scene: Scene) -> int:
    """A job failed, and its lane halts."""
    scene.work()
    failed = scene.defer("charge", on_failure="halt")
    behind = go_behind(scene)
    scene.until_status(failed, "failed")
    scene.age()
    return behind


def paused(scene: Scene) -> int:
    """Somebody paused the lane and forgot it."""
    scene.work()
    scene.type(f"queue lanes pause {LANE} --reason 'bank is down'")
    return go_behind(scene)


def queue_paused(scene: Scene) -> int:
    """Somebody paused the queue and forgot it."""
    scene.work()
    scene.type("queue queues pause mail --reason 'supplier is down'")
    return go_behind(scene, queue="mail")


def everything_paused(scene: Scene) -> int:
    """Somebody paused all queues and forgot it."""
    scene.work()
    scene.type("queue queues pause --all --reason 'we move the database'")
    return go_behind(scene)


def behind_a_paused_queue(scene: Scene) -> int:
    """The queue of the job is served. But the next job of its lane is in a queue that is paused."""
    scene.work()
    scene.type("queue queues pause mail --reason 'supplier is down'")
    scene.defer("send", queue="mail")
    return go_behind(scene)


def task_paused(scene: Scene) -> int:
    """Somebody paused the task and forgot it."""
    scene.work()
    scene.type("queue tasks pause send --reason 'it sends twice'")
    return go_behind(scene)


def behind_a_paused_task(scene: Scene) -> int:
    """The task of the job is not paused. But the next job of its lane is of one that is."""
    scene.work()
    scene.type("queue tasks pause ask --reason 'it asks twice'")
    scene.defer("ask")
    return go_behind(scene)


def retrying(scene: Scene) -> int:
    """The head failed and waits an hour for its retry, and ready jobs wait behind it."""
    scene.work()
    head = scene.defer("ask")
    scene.until_status(head, "scheduled")
    return go_behind(scene)


# ---------------------------------------------------------------- held


def held_by_a_lost_worker(scene: Scene) -> int:
    """The worker of the holder died, and no other worker is there."""
    worker = scene.work()
    scene.defer("load")
    scene.until_there("loading")
    worker.send_signal(signal.SIGKILL)
    worker.wait()
    scene.create("loaded")
    scene.engine.query("UPDATE workers SET heartbeat_at = heartbeat_at - interval '1 minute'")
    return go_behind(scene)


def held_for_long(scene: Scene) -> int:
    """The holder runs and runs. Its worker is well."""
    scene.work()
    scene.defer("load")
    scene.until_there("loading")
    return go_behind(scene)


def held_by_a_thread_that_hangs(scene: Scene) -> int:
    """The holder hangs in a thread, and did not heed the request to abort it."""
    scene.work("-c 2")
    hanging = scene.defer("hang")
    scene.until_there("hanging")
    scene.age()
    scene.type(f"queue jobs cancel --abort --yes {hanging}")
    scene.work(TRUSTING)
    return go_behind(scene)


def held_by_a_blocked_loop(scene: Scene) -> int:
    """The holder blocks the event loop of its worker."""
    scene.work()
    scene.defer("block")
    scene.until_there("blocking")
    scene.work(TRUSTING)
    behind = go_behind(scene)
    scene.until(lambda: scene.engine.query("SELECT 1 FROM worker_status WHERE state = 'blocked'"))
    return behind


def held_by_readers(scene: Scene) -> int:
    """Readers share the lane for long. A job that wants it alone waits, and later readers too."""
    scene.work("-c 3")
    scene.defer("load", lock=None, locks=[LANE], shared=[LANE])
    scene.until_there("loading")
    scene.defer("send")
    reader = go_behind(scene, lock=None, locks=[LANE], shared=[LANE])
    return reader


# ---------------------------------------------------------------- no worker


def unserved(scene: Scene) -> int:
    """No live worker serves the queue."""
    scene.work("--queues default")
    return go_behind(scene, queue="mail")


def unknown(scene: Scene) -> int:
    """No live worker knows the task."""
    scene.work(app="lost:app")
    put_back = scene.defer("send")
    scene.until_status(put_back, "scheduled")  # before, a worker may just be looking at it
    return go_behind(scene)


# ---------------------------------------------------------------- something else first


def behind_another_lane(scene: Scene) -> int:
    """The head has several locks, and the lane of another one is paused."""
    scene.work()
    scene.type(f"queue lanes pause {OTHER}")
    scene.defer("send", lock=None, locks=[LANE, OTHER])
    return go_behind(scene)


def limited(scene: Scene) -> int:
    """The limit of the head is full, by somebody's wish."""
    scene.work("-c 2")
    scene.type("queue limits set bank --concurrency 1")
    scene.defer("load", lock=None, limit_key="bank")
    scene.until_there("loading")
    job = go_behind(scene, limit_key="bank")
    scene.until_status(job, "limited")
    return job


def after_others_of_its_group(scene: Scene) -> int:
    """The only slot is taken, and other jobs of the group go first."""
    scene.work()
    scene.defer("load", lock=None)
    scene.until_there("loading")
    for _ in range(5):
        scene.defer("send", lock=None, group_key="customer:7")
    return go_behind(scene, group_key="customer:7")


def after_a_failed_job(scene: Scene) -> int:
    """The job comes after another one, which has failed."""
    scene.work()
    failed = scene.defer("charge", lock=None)
    job = go_behind(scene, after=[failed], on_parent="hold")
    scene.until(lambda: scene.engine.query("SELECT 1 FROM failed_parents"))
    return job


def after_a_batch(scene: Scene) -> int:
    """The callback of a batch that nobody closes."""
    scene.work()
    scene.engine.query("SELECT open_batch('import', 'send', lock => %s)", LANE)
    ((job,),) = scene.engine.query("SELECT id FROM jobs WHERE status = 'pending'")
    scene.age()
    return int(job)


# ---------------------------------------------------------------- the database


def locked_by_a_transaction(scene: Scene) -> int:
    """Somebody has changed the next job in psql and went for lunch without a commit."""
    scene.work("-c 2")
    scene.defer("load")
    scene.until_there("loading")
    job = go_behind(scene)
    blocked = "SELECT 1 FROM jobs WHERE id = %s AND status = 'blocked'"
    scene.until(lambda: scene.engine.query(blocked, job))
    lock(scene, job)
    finish(scene)
    scene.until(lambda: scene.engine.query("SELECT 1 FROM lanes WHERE state = 'delayed'"))
    return job


def locked_before_it_ran(scene: Scene) -> int:
    """The same before any worker has met the job: its lane is free, and nothing starts."""
    job = go_behind(scene)
    lock(scene, job)
    scene.work()
    return job


def lock(scene: Scene, job: int) -> None:
    session = psycopg.connect(scene.dsn, application_name="psql")
    scene.sessions.append(session)
    session.execute("SELECT FROM inturn.jobs WHERE id = %s FOR UPDATE", [job])
    named = "SELECT 1 FROM explain(%s) WHERE unblock LIKE '%%pg_terminate_backend%%'"
    scene.until(lambda: scene.engine.query(named, job))  # not before it is two seconds old


def left_behind(scene: Scene) -> int:
    """Somebody changed rows by hand: a worker that does not exist holds the lane."""
    job = go_behind(scene)
    scene.engine.query(
        "INSERT INTO lanes (lock, worker_id, since) VALUES (%s, gen_random_uuid(), clock())", LANE
    )
    return job


def schema_of_another_version(scene: Scene) -> int:
    """The functions in the database are not those of this version, so no worker starts."""
    job = go_behind(scene)
    scene.engine.query("UPDATE applied_code SET checksum = 'another'")
    return job


WAITS, LONG = "inturn_lane_max_head_wait_seconds", "InturnLaneWaitsTooLong"
RETRY, RESUME = "queue lanes retry-head", "queue lanes resume"
QUEUE_PAUSED, GO_ON = "InturnQueuePaused", "queue queues resume"
TASK_PAUSED, TASK_GOES_ON = "InturnTaskPaused", "queue tasks resume"
WORKER, ABORT = "queue worker", "queue jobs cancel --abort"


def finish(scene: Scene) -> None:
    scene.create("loaded")


def deploy(scene: Scene) -> None:
    scene.make_due()
    scene.work()


# fmt: off
KINDS: dict[Make, Kind] = {
    halted: Kind('inturn_lanes{state="halted"}', "InturnLaneHalted", "lanes", "lane halted", "halted", RETRY),
    paused: Kind('inturn_lanes{state="paused"}', LONG, "paused", "lane paused", "paused", RESUME),
    queue_paused: Kind('inturn_queue_paused_seconds{queue="mail"}', QUEUE_PAUSED, "paused", "queue paused",
                       "paused_queues", GO_ON, shows="supplier is down"),
    everything_paused: Kind('inturn_queue_paused_seconds{queue="*"}', QUEUE_PAUSED, "paused", "queue paused",
                            "paused_queues", GO_ON, shows="we move the database"),
    behind_a_paused_queue: Kind("inturn_queue_paused_seconds", QUEUE_PAUSED, "paused", "queue paused",
                                "paused_queues", GO_ON, shows="supplier is down"),
    task_paused: Kind('inturn_task_paused_seconds{task="send"}', TASK_PAUSED, "paused", "task paused",
                      "paused_tasks", TASK_GOES_ON, shows="it sends twice"),
    behind_a_paused_task: Kind("inturn_task_paused_seconds", TASK_PAUSED, "paused", "task paused",
                               "paused_tasks", TASK_GOES_ON, shows="it asks twice"),
    retrying: Kind('inturn_lanes{state="retrying"}', LONG, "waiting", "lane retrying", "retrying", RETRY),
    held_by_a_lost_worker: Kind('inturn_lanes{state="stalled"}', "InturnLaneStalled", "workers", "holder lost",
                                "stalled", WORKER),
    held_for_long: Kind(WAITS, LONG, "waiting", "lane held", "held", ABORT),
    held_by_a_thread_that_hangs: Kind(WAITS, LONG, "waiting", "lane held", "held", "kill -9",
                                      ends=Scene.work),
    held_by_a_blocked_loop: Kind('inturn_workers{state="blocked"}', "InturnEventLoopBlocked", "workers",
                                 "holder blocked", "stalled", "kill -9", ends=Scene.work, shows="blocked"),
    held_by_readers: Kind(WAITS, LONG, "waiting", "lane head waits", "held", ABORT),
    unserved: Kind('inturn_queue_served{queue="mail"} == bool 0', "InturnQueueUnserved", "queues", "queue unserved",
                   "unserved", WORKER, shows="mail"),
    unknown: Kind("inturn_unknown_tasks", "InturnTaskUnknown", "tasks", "task unknown", "unknown_tasks",
                  "deploy", ends=deploy, shows="send"),
    behind_another_lane: Kind(WAITS, LONG, "waiting", "lane head waits", "idle", RESUME),
    limited: Kind('inturn_jobs{state="limited"}', "InturnLimitHoldsLong", "waiting", "limited", "limited",
                  "queue limits set", says="the next starts when one ends", shows="bank"),
    after_others_of_its_group: Kind("inturn_oldest_runnable_age_seconds", "InturnJobsWaitTooLong", "backlog", "turn",
                                    "queues", WORKER, shows="default"),
    after_a_failed_job: Kind("inturn_jobs_behind_failed", "InturnParentFailed", "parents", "parent failed",
                             "failed_parents", "queue jobs retry", shows="job"),
    after_a_batch: Kind("inturn_forgotten_batches", "InturnBatchForgotten", "batches", "batch open",
                        "forgotten_batches", "queue batches close", shows="import"),
    locked_by_a_transaction: Kind('inturn_lanes{state="delayed"}', "InturnLaneDelayed", "waiting", "busy", "delayed",
                                  "SELECT pg_terminate_backend"),
    locked_before_it_ran: Kind("inturn_oldest_runnable_age_seconds", "InturnJobsWaitTooLong", "backlog", "busy",
                               "queues", "SELECT pg_terminate_backend", shows="default"),
    left_behind: Kind(WAITS, LONG, "waiting", "holder lost", "held", WORKER),
    schema_of_another_version: Kind("inturn_schema_fits == bool 0", "InturnSchemaMismatch", "schema",
                                    "schema mismatch", "mismatch", "queue migrate",
                                    shows="migrate"),
}
# fmt: on
