"""Ten incidents as somebody on call meets them. Each is made, and checked, and has been solved once.

    python -m tests.oncall list
    python -m tests.oncall start forgotten-pause     in one terminal: it says what you are told
    python -m tests.oncall check                     in another: it says if you have solved it

Solve it from docs/ alone. `solution` is how the tests do.
"""

from collections.abc import Callable
from dataclasses import dataclass, field

from tests.oncall import kinds
from tests.oncall.scene import LANE, Scene

Victims = list[int]  # the incident is over when these jobs have succeeded


@dataclass(frozen=True)
class Incident:
    """What happens, what the person on call is told, and commands that solve it."""

    start: Callable[[Scene], Victims]
    told: str  # beside the alert
    alert: str | None
    solution: list[str]
    doctor: str | None = None  # the check of the doctor, and of the dashboard's verdict
    labels: dict[str, str] = field(default_factory=dict)
    value: str = "1"
    is_over: Callable[[Scene], bool] = lambda _: True  # beside the jobs


def provider_outage(scene: Scene) -> Victims:
    """The provider was away for an hour. Thousands of jobs stand in halted lanes."""
    scene.work("-c 20")
    jobs = [
        scene.engine.query(
            "SELECT defer(%s, lock => 'order:' || n, on_failure => 'halt') "
            "FROM generate_series(1, 500) AS n",
            task,
        )
        for task in ("charge", "send", "send", "send", "send")
    ]
    scene.until(
        lambda: (
            scene.engine.query("SELECT count(*) FROM lanes WHERE stopped = 'halted'")[0][0] == 500
        )
    )
    scene.age()
    scene.create("provider is back")
    return [job for rows in jobs for (job,) in rows]


def lost_task(scene: Scene) -> Victims:
    return [kinds.unknown(scene)]


def forgotten_pause(scene: Scene) -> Victims:
    return [kinds.paused(scene)]


def hanging_worker(scene: Scene) -> Victims:
    """A job hangs in a thread, and its worker is well otherwise."""
    scene.work("-c 2")
    scene.defer("hang")
    scene.until_there("hanging")
    scene.work("--stalled-after 5")  # the other one may be late on a busy machine
    return [kinds.go_behind(scene)]


def open_transaction(scene: Scene) -> Victims:
    return [kinds.locked_by_a_transaction(scene)]


def full_limit(scene: Scene) -> Victims:
    """Somebody set a limit far too low, and one long import fills it."""
    scene.work("-c 5")
    scene.type("queue limits set 'bank' --concurrency 1")
    scene.defer("load", lock=None, limit_key="bank")
    scene.until_there("loading")
    jobs = [scene.defer("send", lock=None, limit_key="bank") for _ in range(50)]
    scene.until(lambda: scene.status(jobs[0]) == "limited")
    scene.age()
    return jobs


def poison_head(scene: Scene) -> Victims:
    """The first job of a lane can never succeed."""
    scene.work()
    failed = scene.defer("charge", on_failure="halt", args='{"wrong": 1}')
    behind = [scene.defer("send") for _ in range(3)]
    scene.until_status(failed, "failed")
    scene.age()
    return behind


def unserved_queue(scene: Scene) -> Victims:
    return [kinds.unserved(scene)]


def late_schedule(scene: Scene) -> Victims:
    """The clock of the server was wrong for a minute, and a schedule fired for a later time."""
    scene.engine.query(
        "INSERT INTO schedules (task, periodic_id, cron, tz, since, last_instant) "
        "VALUES ('report', '', '* * * * * *', 'UTC', now(), now() + interval '20 hours')"
    )
    scene.work(app="report:app")
    return []


def has_fired(scene: Scene) -> bool:
    return bool(
        scene.engine.query("SELECT 1 FROM all_jobs WHERE task = 'report' AND status = 'succeeded'")
    )


def full_history(scene: Scene) -> Victims:
    """Somebody told the workers to keep the history for a year."""
    for day in range(60, 0, -1):
        scene.engine.query(
            "SELECT set_config('inturn.clock', (now() - %s * interval '1 day')::text, false)", day
        )
        assert scene.engine.query("SELECT prepare_history(0)") == [(1,)]
    scene.engine.query("RESET inturn.clock")
    scene.engine.query(OLD)
    scene.work("--keep-history 365d")
    return []


OLD = """
INSERT INTO finished_jobs (id, created_at, finished_at, status, on_retry, on_failure, priority,
    attempts, queue, task, args, errors)
SELECT -n, now(), now() - n %% 60 * interval '1 day', 'succeeded', 'hold', 'continue', 0, 1,
    'default', 'send', '{}', '[]'
FROM generate_series(1, 60000) AS n
"""


def is_pruned(scene: Scene) -> bool:
    """Look at the names only: who reads the history keeps it from being pruned."""
    rows = scene.engine.query(
        "SELECT to_date(right(inhrelid::regclass::text, 8), 'YYYYMMDD') > now() - '32 days'::interval "
        "FROM pg_inherits WHERE inhparent = 'finished_jobs'::regclass "
        "AND inhrelid::regclass::text <> 'finished_jobs_default'"
    )
    return len(rows) >= 28 and all(is_young for (is_young,) in rows)


# While the release that lost the task runs, each of its workers may take the job again.
STOP = "queue workers list | sed -n 's/.* \\([0-9]*\\) on .*/\\1/p' | xargs kill"
HANG = "queue jobs explain 2"
# It names the process only once that has missed heartbeats.
KILL = "until pid=$(queue jobs explain 2 | grep -oP 'kill -9 \\K\\d+'); do sleep 0.1; done; kill -9 $pid"
INCIDENTS: dict[str, Incident] = {
    "provider-outage": Incident(
        provider_outage,
        "The card provider was away for an hour, and says that it is back.",
        "InturnLaneHalted",
        ["queue doctor", "queue lanes retry-head --state halted --all --yes"],
        value="500",
        doctor="lanes",
    ),
    "lost-task": Incident(
        lost_task,
        "A release went out at six: its app is lost:app. The one before was own:app.",
        "InturnTaskUnknown",
        ["queue doctor", STOP, "queue -a own:app worker"],
        labels={"queue": "default"},
        doctor="tasks",
    ),
    "forgotten-pause": Incident(
        forgotten_pause,
        f"A customer asks what became of {LANE}.",
        "InturnLaneWaitsTooLong",
        ["queue doctor", f"queue lanes resume {LANE}"],
        labels={"queue": "default"},
        value="2h",
        doctor="paused",
    ),
    "hanging-worker": Incident(
        hanging_worker,
        "Nothing was released today.",
        "InturnLaneWaitsTooLong",
        ["queue doctor", HANG, "queue jobs cancel --abort --yes 1", KILL],
        labels={"queue": "default"},
        value="2h",
        doctor="held",
    ),
    "open-transaction": Incident(
        open_transaction,
        "A colleague looked at some jobs in psql before lunch.",
        "InturnLaneDelayed",
        [
            "queue jobs explain 1",
            "SELECT pg_terminate_backend(pid) FROM open_transactions WHERE application = 'psql'",
        ],
        doctor="waiting",
    ),
    "full-limit": Incident(
        full_limit,
        "The bank says that it takes twenty calls at once.",
        "InturnLimitHoldsLong",
        ["queue limits list", "queue limits set bank --concurrency 20"],
        labels={"queue": "default"},
        value="2h",
        doctor="waiting",
    ),
    "poison-head": Incident(
        poison_head,
        "The developers say that the failed job is wrong and can go.",
        "InturnLaneHalted",
        ["queue lanes list --state halted", f"queue lanes skip-head --yes {LANE}"],
        doctor="lanes",
    ),
    "unserved-queue": Incident(
        unserved_queue,
        "A server was switched off this morning.",
        "InturnQueueUnserved",
        ["queue doctor", "queue worker --queues mail"],
        labels={"queue": "mail"},
        doctor="queues",
    ),
    "late-schedule": Incident(
        late_schedule,
        "The report that comes every minute has not come today. The database's server had a wrong "
        "clock last night.",
        "InturnScheduleAhead",
        [
            "queue schedules list",
            "queue doctor",
            "UPDATE inturn.schedules SET last_instant = now() WHERE last_instant > now();",
        ],
        labels={"schedule": "report"},
        value="20h",
        is_over=has_fired,
        doctor="schedules",
    ),
    "full-history": Incident(
        full_history,
        "The disk of the database is 95 % full. Thirty days of history are enough.",
        None,
        ["queue worker --keep-history 30d"],
        is_over=is_pruned,
    ),
}


def is_over(scene: Scene, incident: Incident, victims: Victims) -> bool:
    """Return True if all jobs that customers wait for have succeeded, and nothing else is left."""
    succeeded = "SELECT DISTINCT id FROM all_jobs WHERE id = ANY (%s) AND status = 'succeeded'"
    if victims and len(scene.engine.query(succeeded, victims)) < len(victims):
        return False
    return incident.is_over(scene)
