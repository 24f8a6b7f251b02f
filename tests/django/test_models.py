"""The queue's tables as Django's models."""

from collections.abc import Callable
from typing import Any

import pytest
from asgiref.sync import async_to_sync

from inturn import App, shared

Write = Callable[[Any], object]
WRITES: dict[str, tuple[Write, str]] = {
    "save": (lambda job: job.save(), r"cannot update it\. Use app\.job_manager\.retry_job_by_id"),
    "delete": (lambda job: job.delete(), r"cancel_job_by_id\(job_id, delete_job=True\)"),
    "a new one": (lambda job: type(job)(task="x").save(), r"cannot create it\. Use task\.defer"),
    "asave": (lambda job: async_to_sync(job.asave)(), "retry_job_by_id"),
    "adelete": (lambda job: async_to_sync(job.adelete)(), "delete_job=True"),
}
MANY: dict[str, tuple[Write, str]] = {
    "create": (lambda rows: rows.create(task="x"), "task.defer"),
    "bulk_create": (lambda rows: rows.bulk_create([rows.model(task="x")]), "task.defer"),
    "get_or_create": (lambda rows: rows.get_or_create(id=1), "task.defer"),
    "update_or_create": (lambda rows: rows.update_or_create(id=1), "retry_job_by_id"),
    "update": (lambda rows: rows.update(priority=5), "retry_job_by_id"),
    "bulk_update": (lambda rows: rows.bulk_update(list(rows), ["priority"]), "retry_job_by_id"),
    "delete": (lambda rows: rows.delete(), "delete_job=True"),
    "acreate": (lambda rows: async_to_sync(rows.acreate)(task="x"), "task.defer"),
    "aupdate": (lambda rows: async_to_sync(rows.aupdate)(priority=5), "retry_job_by_id"),
    "adelete": (lambda rows: async_to_sync(rows.adelete)(), "delete_job=True"),
}


@pytest.fixture
def live(ship: Any) -> Any:
    """A waiting job, as its model."""
    from inturn.django.models import Job

    return Job.objects.get(id=ship.configure(lock="a", queueing_lock="q", timeout=5).defer(order=1))


@pytest.mark.parametrize("name", WRITES)
def test_a_model_refuses_to_write_and_names_the_call_to_use(live: Any, name: str) -> None:
    from inturn.django.exceptions import ReadOnlyModel

    write, message = WRITES[name]
    live.priority = 5
    with pytest.raises(ReadOnlyModel, match=message):
        write(live)
    live.refresh_from_db()
    assert live.priority == 0


@pytest.mark.parametrize("name", MANY)
def test_a_queryset_refuses_to_write_and_names_the_call_to_use(live: Any, name: str) -> None:
    from inturn.django.exceptions import ReadOnlyModel

    write, message = MANY[name]
    with pytest.raises(ReadOnlyModel, match=message):
        write(type(live).objects.filter(lock="a"))
    assert type(live).objects.get().priority == 0


def test_all_models_are_read_only(app: App, live: Any) -> None:
    from django.apps import apps

    from inturn.django.exceptions import ReadOnlyModel

    for model in apps.get_app_config("inturn").get_models():
        with pytest.raises(ReadOnlyModel, match=f"{model.__name__} is read-only"):
            model.objects.all().delete()
        with pytest.raises(ReadOnlyModel, match=f"{model.__name__} is read-only"):
            model.objects.update(pk=1)
        with pytest.raises(ReadOnlyModel, match=f"{model.__name__} is read-only"):
            model().save()


def test_a_fixture_of_djangos_cannot_load_jobs(live: Any) -> None:
    from django.core import serializers

    from inturn.django.exceptions import ReadOnlyModel

    [loaded] = serializers.deserialize("json", serializers.serialize("json", [live]))
    with pytest.raises(ReadOnlyModel):
        loaded.save()


def test_a_test_can_make_the_models_writable(live: Any) -> None:
    from django.test import override_settings

    from inturn.django.models import Job

    with override_settings(INTURN={"READONLY_MODELS": False}):
        Job.objects.update(priority=5)
        assert Job.objects.get().priority == 5
        Job.objects.get().delete()
        assert not Job.objects.exists()


def test_a_live_job_shows_its_locks_timeout_worker_and_whether_it_is_to_abort(
    app: App, live: Any, ship: Any
) -> None:
    from inturn.django.models import AnyJob, Job

    assert not hasattr(AnyJob, "abort_requested")
    assert (live.queueing_lock, live.timeout.total_seconds()) == ("q", 5)
    assert (live.abort_requested, live.worker_id) == (False, None)
    seen: list[Any] = []

    @app.task(name="look")
    def look() -> None:
        app.job_manager.cancel_job_by_id(job, abort=True)
        seen.append(Job.objects.get(id=job))

    job = look.defer()
    app.run_worker(wait=False, install_signal_handlers=False)
    assert seen[0].abort_requested
    assert seen[0].worker_id is not None


def test_a_job_shows_its_locks_limit_group_batch_and_expiry_as_long_as_it_is_known(
    app: App, ship: Any
) -> None:
    from inturn.django.models import AnyJob, Batch, FinishedJob, Job

    batch = app.batches.open("import")
    flow = {"limit": "stripe", "group": "tenant:7", "batch": batch, "expires_in": {"hours": 1}}
    ship.configure(lock=["b", shared("a")], **flow).defer(order=1)
    for model in (Job, AnyJob, FinishedJob):
        job = model.objects.get(locks__contains=["b"])
        assert (job.locks, job.shared) == (["a", "b"], ["a"])
        assert (job.limit_key, job.group_key, job.batch_id) == ("stripe", "tenant:7", batch)
        assert job.expires_at > job.created_at
        app.run_worker(wait=False, install_signal_handlers=False)
    counted = Batch.objects.get(id=batch)
    assert (counted.name, counted.state, counted.total) == ("import", "open", 1)
    assert (counted.remaining, counted.succeeded) == (0, 1)


# What a view or a table has, and no model shows, for it is the engine's own.
HIDDEN = {
    "live_jobs": {"stored_as"},
    "all_jobs": {"stored_as", "abort"},
    "finished_jobs": {"on_retry", "on_failure"},
    "lanes": {"worker_id", "job_id", "look_at", "stopped", "version"},
    "worker_status": {"loop_turned_at", "listens", "trouble"},
}


def test_each_column_that_people_may_read_is_in_its_model(app: App, django: Any) -> None:
    from django.apps import apps

    for model in apps.get_app_config("inturn").get_models():
        name = model._meta.db_table.split(".")[1].strip('"')
        with django.connection.cursor() as cursor:
            cursor.execute(
                "SELECT column_name FROM information_schema.columns "
                "WHERE table_schema = 'inturn' AND table_name = %s",
                [name],
            )
            there = {column for (column,) in cursor.fetchall()}
        shown = {field.column for field in model._meta.fields}
        assert there - shown == HIDDEN.get(name, set()), name
        assert shown <= there


def test_a_foreign_key_follows_its_job_into_the_history(app: App, ship: Any) -> None:
    from django.db import connection
    from store.models import Order
    from store.orders import buy

    from inturn.django.models import AnyJob

    order = buy("ann")
    assert order.job.status == "todo"
    assert Order.objects.select_related("job").get().job.task == "store.tasks.ship"
    app.run_worker(wait=False, install_signal_handlers=False)
    assert Order.objects.get().job.status == "succeeded"
    assert Order.objects.filter(job__status="succeeded").count() == 1
    assert AnyJob.objects.get(order=order).finished_at is not None
    with connection.cursor() as cursor:
        cursor.execute("DELETE FROM inturn.finished_jobs")
    # The job is forgotten. The order is not.
    assert Order.objects.select_related("job").get().job is None
    order.delete()


def test_a_job_shows_how_far_it_is_in_its_life_and_afterwards(app: App) -> None:
    from inturn import JobContext
    from inturn.django.models import AnyJob, Job

    @app.task(name="tell", pass_context=True)
    def tell(context: JobContext) -> None:
        context.progress(3, 4, "three")
        context.snooze({"hours": 1})

    job_id = tell.defer()
    app.run_worker(wait=False, install_signal_handlers=False)
    for model in (Job, AnyJob):
        told = model.objects.get(progress__done=3).progress
        assert told == {**told, "done": 3, "total": 4, "text": "three"}
    app.job_manager.cancel_job_by_id(job_id)
    assert AnyJob.objects.get().progress["text"] == "three"


def test_a_finished_job_has_its_result_and_its_worker(app: App) -> None:
    from inturn.django.models import AnyJob, FinishedJob

    app.task(name="count")(lambda: {"total": 3}).configure(queueing_lock="q").defer()
    app.run_worker(wait=False, install_signal_handlers=False)
    for model in (FinishedJob, AnyJob):
        job = model.objects.get()
        assert (job.result, job.queueing_lock) == ({"total": 3}, "q")
        assert job.worker_id is not None


def test_workers_and_schedules_can_be_read(app: App, django: Any) -> None:
    from inturn.django.models import Schedule, Worker

    seen: list[tuple[Any, Any]] = []

    @app.periodic(cron="0 0 1 1 *", periodic_id="yearly")
    @app.task(name="look")
    def look(timestamp: int = 0) -> None:
        seen.append((Worker.objects.get(), Schedule.objects.get()))

    look.defer()
    try:
        app.run_worker(wait=False, install_signal_handlers=False, name="ann", queues=["default"])
    finally:
        with django.connection.cursor() as cursor:
            cursor.execute("DELETE FROM inturn.schedules")
    [(worker, schedule)] = seen
    assert (worker.name, worker.state, worker.queues) == ("ann", "live", ["default"])
    assert (schedule.task, schedule.periodic_id, schedule.cron) == ("look", "yearly", "0 0 1 1 *")
