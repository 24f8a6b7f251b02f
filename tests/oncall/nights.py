"""Nights that no page of the documents describes, and what the first command and page must say."""

from collections.abc import Callable
from dataclasses import dataclass

import psycopg
from psycopg.conninfo import conninfo_to_dict
from psycopg.sql import SQL, Identifier

from tests.oncall.scene import LANE, Scene
from tests.roles import LOGINS, as_login, grant_roles

WORKER = "SELECT register_worker('mail', 'host', 7, %s, 1)"


@dataclass(frozen=True)
class Night:
    """What has happened, what names it, and what nobody may be told to do.

    `doctor` is what `queue doctor` says, `page` what the first page says, and `explain` what
    `queue jobs explain` says of the job that does not run.
    """

    doctor: str
    page: str
    explain: str
    never: tuple[str, ...] = ()  # advice that would do harm, or nothing


def change(scene: Scene, *statements: str) -> None:
    with psycopg.connect(
        scene.dsn, autocommit=True, options="-c search_path=inturn -c lock_timeout=60s"
    ) as connection:
        for statement in statements:
            connection.execute(statement.encode())


def wait_behind(scene: Scene) -> int:
    """Return a job that waits behind one whose end cannot be stored."""
    scene.defer("send")
    job = scene.defer("send")
    scene.until(lambda: scene.engine.query("SELECT 1 FROM jobs WHERE status = 'doing'"))
    scene.age()
    return job


# ---------------------------------------------------------------- what the database refuses


def a_trigger_that_raises(scene: Scene) -> int:
    """Somebody has put an audit trigger on the history."""
    scene.work()
    change(
        scene,
        "CREATE FUNCTION audit() RETURNS trigger LANGUAGE plpgsql "
        "AS $$ BEGIN RAISE EXCEPTION 'audit.who is null'; END $$",
        "CREATE TRIGGER audit BEFORE INSERT ON finished_jobs FOR EACH ROW EXECUTE FUNCTION audit()",
    )
    return wait_behind(scene)


def a_dropped_partition(scene: Scene) -> int:
    """Somebody made room, and dropped the partitions of the history, all of them."""
    drops = (
        "SELECT 'DROP TABLE ' || relname FROM pg_inherits JOIN pg_class ON oid = inhrelid "
        "WHERE inhparent = 'finished_jobs'::regclass AND relname NOT LIKE %s"
    )
    change(scene, *(drop for (drop,) in scene.engine.query(drops, "%default")))
    scene.work()
    # It has made partitions now, and looks again in an hour.
    scene.until(lambda: scene.engine.query(drops, "%default"))
    change(scene, *(drop for (drop,) in scene.engine.query(drops, "")))
    return wait_behind(scene)


def an_exhausted_sequence(scene: Scene) -> int:
    """Somebody restored a sequence from a list in which it ends at a thousand."""
    scene.work()
    change(scene, "ALTER SEQUENCE fences MAXVALUE 1000", "SELECT setval('fences', 1000)")
    job = scene.defer("send")
    scene.age()
    return job


def a_lost_right(scene: Scene) -> int:
    """A script that tightens rights took one from the workers."""
    grant_roles(scene.dsn)
    change(scene, "REVOKE EXECUTE ON FUNCTION claim FROM inturn_test_worker")
    scene.work(f"--dsn '{as_login(scene.dsn, LOGINS['worker'])}'")
    job = scene.defer("send")
    scene.age()
    return job


# ---------------------------------------------------------------- what the database waits for


def open_session(scene: Scene, *statements: str) -> psycopg.Connection:
    session = psycopg.connect(scene.dsn, application_name="flyway")
    scene.sessions.append(session)
    for statement in statements:
        session.execute(statement.encode())
    return session


def an_open_migration(scene: Scene) -> int:
    """A migration tool has changed the table of jobs, and asks its user whether to go on."""
    job = scene.defer("send")
    scene.age()
    open_session(scene, "ALTER TABLE inturn.jobs ADD COLUMN tenant text")
    return job


def a_report_of_hours(scene: Scene) -> int:
    """Somebody exports the table under a lock against all who write."""
    job = scene.defer("send")
    scene.age()
    open_session(scene, "LOCK TABLE inturn.lanes IN SHARE MODE")
    scene.work()
    return job


# ---------------------------------------------------------------- what nobody has thought of


def no_writes(scene: Scene) -> int:
    """The provider forbids writes because the disk is full."""
    job = scene.defer("send")
    scene.age()
    scene.engine.query(WORKER, None)
    scene.engine.query("UPDATE workers SET heartbeat_at = heartbeat_at - interval '1 hour'")
    name = Identifier(str(conninfo_to_dict(scene.dsn)["dbname"]))
    with psycopg.connect(scene.dsn, autocommit=True) as connection:
        connection.execute(
            SQL("ALTER DATABASE {} SET default_transaction_read_only = on").format(name)
        )
    return job


def a_misspelled_queue(scene: Scene) -> int:
    """The new workers were started with --queues mial."""
    scene.engine.query(WORKER, ["mial"])
    job = scene.defer("send", queue="mail")
    scene.age()
    return job


def a_daily_allowance(scene: Scene) -> int:
    """Somebody wrote 2/day for 2/s."""
    scene.type("queue limits set bank --rate 1/day --burst 1")
    worker = scene.engine.query(WORKER, None)[0][0]
    scene.defer("send", lock=None, limit_key="bank")
    job = scene.defer("send", limit_key="bank")
    for _ in range(2):
        scene.engine.query("SELECT FROM claim(%s, NULL, 5)", worker)
    scene.age()
    return job


def a_key_that_is_taken(scene: Scene) -> int:
    """The nightly run is not deferred: its queueing lock belongs to last night's, which waits."""
    scene.engine.query(WORKER, None)
    scene.type(f"queue lanes pause {LANE} --reason 'we count the stock'")
    job = scene.defer("send", queueing_lock="nightly")
    scene.age()
    return job


START = ("queue worker",)
ABORT = ("--abort",)
# fmt: off
WITH_PROCESSES: dict[Callable[[Scene], int], Night] = {
    a_trigger_that_raises: Night("audit.who is null", "audit.who is null", "audit.who is null", ABORT),
    a_dropped_partition: Night('no partition of relation "finished_jobs"', "no partition of relation",
                               "no partition of relation", ABORT),
    an_exhausted_sequence: Night('reached maximum value of sequence "fences"', "reached maximum value",
                                 "reached maximum value", ("nothing blocks it",)),
    a_lost_right: Night("permission denied for function claim", "permission denied for function claim",
                        "permission denied for function claim", ("nothing blocks it",)),
    an_open_migration: Night("(flyway, idle in transaction) has locked jobs", "A table of the queue is locked",
                             "(flyway, idle in transaction) has locked jobs"),
    a_report_of_hours: Night("(flyway, idle in transaction) has locked lanes", "canceling statement due to lock timeout",
                             "(flyway, idle in transaction) has locked lanes"),
}
AT_ONCE: dict[Callable[[Scene], int], Night] = {
    no_writes: Night("default_transaction_read_only is on", "default_transaction_read_only is on",
                     "default_transaction_read_only is on", START),
    a_misspelled_queue: Night("no live worker serves their queue: mail", "no live worker serves their queue: mail",
                              "no live worker serves queue mail"),
    a_daily_allowance: Night("waiting in lane order:4711", "waiting in lane order:4711",
                              "limit bank lets 1 start in 1 day"),
    a_key_that_is_taken: Night("we count the stock", "we count the stock", "we count the stock"),
}
# fmt: on
