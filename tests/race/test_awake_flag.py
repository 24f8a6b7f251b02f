"""Which workers must be notified: an awake worker costs producers nothing and misses nothing."""

from tests.race.harness import Mutation, Stage, Worker, promise, story


def fall_asleep(worker: Worker) -> tuple[bool, str]:
    worker.set_awake(False)
    return worker.last_look()


@story(
    Mutation(
        "a notification is sent although a worker is awake",
        "notify_workers.sql",
        "WHERE NOT awake AND (",
        "WHERE (",
    )
)
def test_a_worker_that_is_awake_is_not_woken(stage: Stage) -> None:
    producer, worker = stage.session(), stage.worker()
    worker.set_awake(True)
    with stage.notifications() as notifications:
        producer.defer(None)
    promise(notifications == [], "nobody sleeps, nobody is woken")
    fall_asleep(worker)
    with stage.notifications() as notifications:
        producer.defer(None)
    promise(notifications == ["default"], "it may sleep now")


@story(
    Mutation(
        "any awake worker of the queue silences the notification",
        "notify_workers.sql",
        "NOT EXISTS (\n        SELECT FROM workers WHERE NOT awake",
        "EXISTS (SELECT FROM workers WHERE awake",
    )
)
def test_a_worker_of_another_queue_that_is_awake_does_not_stand_in_for_a_sleeper(
    stage: Stage,
) -> None:
    producer, worker, _ = stage.session(), stage.worker("other", "default"), stage.worker("default")
    worker.set_awake(True)
    with stage.notifications() as notifications:
        producer.defer(None)
    promise(notifications == ["default"], "one of the queue may be asleep")
    with stage.notifications() as notifications:
        producer.defer(None, queue="other")
    promise(notifications == [], "the only worker of the queue is awake")


@story(
    Mutation(
        "a worker sleeps as soon as its awake flag is cleared",
        "next_wake.sql",
        "pg_snapshot_xmin(pg_current_snapshot()) >= began.horizon",
        "true",
    ),
    Mutation(
        "only transactions that are open now are waited for",
        "next_wake.sql",
        "pg_current_xact_id()",
        "pg_snapshot_xmin(pg_current_snapshot())",
    ),
)
def test_a_worker_looks_again_until_the_transactions_that_saw_it_awake_are_over(
    stage: Stage,
) -> None:
    producer, worker = stage.session(), stage.worker()
    worker.set_awake(True)
    producer.begin()
    producer.defer(None)
    notified, horizon = fall_asleep(worker)
    promise(not notified, "somebody who saw it awake has not committed")
    notified, horizon = worker.last_look(horizon)
    promise(not notified, "and still has not")
    with stage.notifications() as notifications:
        producer.commit()
    promise(notifications == [], "it says nothing")
    promise(len(worker.claim()) == 1, "the worker, looking again, finds it")
    notified, _ = worker.last_look(horizon)
    promise(notified, "and may sleep")


@story(
    Mutation(
        "a horizon of the future is waited for",
        "next_wake.sql",
        "p_horizon < pg_snapshot_xmax(pg_current_snapshot())",
        "p_horizon IS NOT NULL",
    )
)
def test_a_worker_does_not_wait_for_transactions_of_another_server(stage: Stage) -> None:
    """Behind its address there is a copy now, on a server that has used fewer ids."""
    worker = stage.worker()
    notified, horizon = worker.last_look("1000000000000")
    promise(notified and int(horizon) < 1000000000000, f"it begins anew: {notified}, {horizon}")


@story(
    Mutation(
        "only what had begun before the last commit is waited for",
        "next_wake.sql",
        "pg_current_xact_id()",
        "pg_snapshot_xmax(pg_current_snapshot())",
    )
)
def test_a_worker_that_is_going_to_sleep_waits_for_a_transaction_that_begins_meanwhile(
    stage: Stage,
) -> None:
    producer, worker = stage.session(), stage.worker()
    worker.set_awake(True)
    worker.begin()
    worker.set_awake(False)
    producer.begin()
    producer.defer(None)
    worker.commit()
    notified, horizon = worker.last_look()
    promise(
        not notified, "the producer saw it awake, because the worker's change had not committed"
    )
    producer.commit()
    promise(len(worker.claim()) == 1, "the worker, looking again, finds the job")
    promise(worker.last_look(horizon)[0], "and may sleep")


@story(
    Mutation(
        "a transaction believes what it read before",
        "notify_workers.sql",
        "current_setting('transaction_isolation') = 'read committed'",
        "true",
    )
)
def test_a_transaction_with_an_old_snapshot_wakes_in_any_case(stage: Stage) -> None:
    producer, worker = stage.session(), stage.worker()
    worker.set_awake(True)
    producer.run("BEGIN ISOLATION LEVEL REPEATABLE READ")
    producer.run("SELECT FROM workers")
    notified, _ = fall_asleep(worker)
    promise(notified, "nobody has written anything that is not committed")
    with stage.notifications() as notifications:
        producer.defer(None)
        producer.commit()
    promise(notifications == ["default"], "it cannot know that the worker has lain down")


@story(
    Mutation(
        "the setting that turns notifications off is ignored",
        "notify_workers.sql",
        "current_setting('inturn.quiet', true) = 'on'",
        "false",
    )
)
def test_a_transaction_that_is_to_be_prepared_can_defer_without_a_word(stage: Stage) -> None:
    """PREPARE TRANSACTION refuses notifications, which depend on the workers."""
    producer, _ = stage.session(), stage.worker()
    with stage.notifications() as notifications:
        producer.begin()
        producer.run("SET LOCAL inturn.quiet = on")
        producer.defer("a")
        producer.commit()
        promise(notifications == [], "it is left to the poll")
        producer.defer("b")
    promise(notifications == ["default"], f"the next is told of: {notifications}")
