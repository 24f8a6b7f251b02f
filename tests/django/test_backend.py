"""The backend for Django's own task framework, on the real one."""

import subprocess
import sys
from datetime import datetime, timedelta
from importlib import import_module
from typing import Any

import psycopg
import pytest
from asgiref.sync import async_to_sync

from inturn import App
from inturn.errors import BadArgument
from inturn.model import StoredJob
from inturn.operations.changes.jobs import get_job
from inturn.testing import Queue
from tests.worker.parts import Parts

BACKEND = "inturn.django.backend.InturnBackend"
TASKS = {
    "default": {"BACKEND": BACKEND, "QUEUES": ["default", "mail"]},
    "patient": {"BACKEND": BACKEND, "OPTIONS": {"retry": 1, "lock": "patient"}},
}
NAME = "tests.django.framework_tasks"
MODULE: list[Any] = []


@pytest.fixture
def tasks(app: App) -> Any:
    """The tasks. The fixture `app` takes away what tests declare, so they are declared again."""
    from django.conf import settings

    if not MODULE:
        settings.TASKS = TASKS
        MODULE.append(import_module(NAME))
    [module] = MODULE
    for each in vars(module).values():
        if hasattr(each, "get_backend") and not isinstance(each, type):
            each.get_backend().validate_task(each)
    module.RAN.clear()
    return module


def work(app: App) -> None:
    app.run_worker(wait=False, install_signal_handlers=False)


def find_job(app: App, result: Any) -> StoredJob:
    job = app.connector.run(get_job(int(result.id)))
    assert job is not None
    return job


def statuses(*results: Any) -> list[str]:
    for result in results:
        result.refresh()
    return [str(result.status) for result in results]


def test_a_task_is_enqueued_run_and_answered(app: App, tasks: Any) -> None:
    result = tasks.add.enqueue(1, b=2)
    assert (str(result.status), result.is_finished, result.attempts) == ("READY", False, 0)
    assert (result.args, result.kwargs) == ([1], {"b": 2})
    work(app)
    assert tasks.RAN == [(1, 2)]
    done = tasks.add.get_result(result.id)
    assert (str(done.status), done.return_value, done.attempts) == ("SUCCESSFUL", 3, 1)
    assert done.task == tasks.add
    assert (done.args, done.kwargs) == ([1], {"b": 2})
    assert tasks.add.get_result(int(result.id)).return_value == 3, "a foreign key is a number"
    assert done.enqueued_at <= done.started_at <= done.finished_at
    result.refresh()
    assert result.return_value == 3


def test_the_same_from_async_code(app: App, tasks: Any) -> None:
    result = async_to_sync(tasks.send.aenqueue)("ann")
    work(app)
    assert async_to_sync(tasks.send.aget_result)(result.id).return_value == {"sent": "ann"}
    async_to_sync(result.arefresh)()
    assert result.is_finished


def test_queue_priority_time_and_lock_reach_the_job(app: App, tasks: Any) -> None:
    from django.utils import timezone

    later = timezone.now() + timedelta(hours=1)
    plain = find_job(app, tasks.send.enqueue("ann"))
    assert (plain.queue, plain.priority, plain.task_name) == ("mail", 7, f"{NAME}.send")
    chosen = tasks.add.using(
        priority=-3, queue_name="mail", run_after=later, lock="customer:ann", on_failure="halt"
    )
    result = chosen.enqueue(1)
    job = find_job(app, result)
    assert (job.queue, job.priority, job.lock) == ("mail", -3, "customer:ann")
    assert job.scheduled_at == later
    read = tasks.add.get_result(result.id)
    assert (read.task.lock, read.task.run_after, read.task.priority) == ("customer:ann", later, -3)
    locked = find_job(app, tasks.fail_once.enqueue())
    assert locked.lock == "patient"


def test_a_job_belongs_to_the_transaction(tasks: Any, django: Any, store_dsn: str) -> None:
    with pytest.raises(ZeroDivisionError), django.transaction.atomic():
        tasks.add.enqueue(1)
        _ = 1 / 0
    with psycopg.connect(store_dsn) as connection:
        assert connection.execute("SELECT count(*) FROM inturn.jobs").fetchone() == (0,)
        with django.transaction.atomic():
            tasks.add.enqueue(1)
            assert connection.execute("SELECT count(*) FROM inturn.jobs").fetchone() == (0,)
        assert connection.execute("SELECT count(*) FROM inturn.jobs").fetchone() == (1,)


def test_a_task_with_context_knows_its_result(app: App, tasks: Any) -> None:
    result = tasks.look.enqueue()
    work(app)
    result.refresh()
    assert result.return_value == [result.id, 1, "RUNNING"]


def test_a_failure_is_reported_with_its_exception(app: App, tasks: Any) -> None:
    result, no_json = tasks.fail.enqueue(), tasks.give_what_is_no_json.enqueue()
    work(app)
    assert statuses(result, no_json) == ["FAILED", "FAILED"]
    assert result.errors[0].exception_class is tasks.SoldOut
    assert "no parcels" in result.errors[0].traceback
    assert no_json.errors[0].exception_class is TypeError
    with pytest.raises(ValueError, match="Task failed"):
        _ = result.return_value


def test_a_backend_can_retry_its_tasks(app: App, tasks: Any) -> None:
    results = tasks.fail_once.enqueue(), tasks.fail_once_async.enqueue()
    for _ in range(20):  # a retry may wait for a moment
        work(app)
        if all(status == "SUCCESSFUL" for status in statuses(*results)):
            break
        for result in results:
            if app.job_manager.get_job_status(int(result.id)) == "scheduled":
                app.job_manager.retry_job_by_id(int(result.id))
    assert [result.return_value for result in results] == ["at last", 2]
    assert [result.attempts for result in results] == [2, 2]
    assert results[0].errors[0].exception_class is tasks.SoldOut


def test_a_cancelled_job_has_failed(app: App, tasks: Any) -> None:
    result = tasks.add.enqueue(1)
    app.job_manager.cancel_job_by_id(int(result.id))
    assert statuses(result) == ["FAILED"]


def test_a_result_that_is_not_there(app: App, tasks: Any, ship: Any) -> None:
    from inturn.django.tasks_api import TaskResultDoesNotExist

    others = ship.defer(order=1)
    for result_id in ("0", "x", "-1", "99999", "9" * 30, "9" * 5000, str(int(others))):
        with pytest.raises(TaskResultDoesNotExist):
            tasks.add.get_backend().get_result(result_id)


@pytest.mark.parametrize("name", [".task", "..task", "no.such.task", "json.loads"])
def test_a_job_whose_name_is_no_task_of_django_has_no_result(
    app: App, tasks: Any, name: str
) -> None:
    from inturn.django.tasks_api import TaskResultDoesNotExist

    job_id = app.configure_task(name).defer(args=[], kwargs={})
    with pytest.raises(TaskResultDoesNotExist):
        tasks.add.get_result(str(job_id))


def test_without_time_zones_a_result_has_naive_times(app: App, tasks: Any) -> None:
    from django.test import override_settings

    with override_settings(USE_TZ=False, TIME_ZONE="Asia/Tokyo"):
        due = datetime.now() + timedelta(hours=1)
        result = tasks.add.using(run_after=due).enqueue(1)
        found = tasks.add.get_result(result.id)
        assert found.task == result.task
        assert timedelta(0) <= result.enqueued_at - found.enqueued_at < timedelta(minutes=1)
        again = found.task.enqueue(1)
    assert find_job(app, again).scheduled_at == find_job(app, result).scheduled_at


def test_signals_are_sent_and_a_retry_is_not_the_end(app: App, tasks: Any) -> None:
    from django.utils.module_loading import import_string

    from inturn.django.backend import InturnBackend
    from inturn.django.tasks_api import PACKAGE

    seen: list[tuple[str, str]] = []
    notes = {}
    for name in ("task_enqueued", "task_started", "task_finished"):

        def note(sender: Any, task_result: Any, *, _name: str = name, **_: Any) -> None:
            assert sender is InturnBackend
            seen.append((_name.removeprefix("task_"), str(task_result.status)))

        notes[name] = note
        import_string(f"{PACKAGE}.signals.{name}").connect(note)
    try:
        tasks.add.enqueue(1)
        work(app)
        tasks.fail.enqueue()
        work(app)
    finally:
        for name, note in notes.items():
            import_string(f"{PACKAGE}.signals.{name}").disconnect(note)
    assert seen == [
        ("enqueued", "READY"),
        ("started", "RUNNING"),
        ("finished", "SUCCESSFUL"),
        ("enqueued", "READY"),
        ("started", "RUNNING"),
        ("finished", "FAILED"),
    ]


def test_a_worker_imports_a_task_that_it_does_not_know_yet(
    app: App, tasks: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    result = tasks.add.enqueue(4)
    app.tasks.pop(f"{NAME}.add")
    monkeypatch.delitem(sys.modules, NAME)  # as in a worker that has only just started
    work(app)
    assert tasks.add.get_backend().get_result(result.id).return_value == 4


def test_a_task_that_the_worker_would_import_is_not_called_unknown(
    app: App, tasks: Any, store_dsn: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    from django.conf import settings

    tasks.add.enqueue(4)
    app.tasks.pop(f"{NAME}.add")

    async def find_unknown() -> list[Any]:
        parts = Parts(app)
        try:
            await parts.registration.register()
            with psycopg.connect(store_dsn) as connection:
                return connection.execute("SELECT task FROM inturn.unknown_tasks").fetchall()
        finally:
            await parts.state.connection.run(parts.registration.unregister(None))
            await parts.close()

    assert async_to_sync(find_unknown)() == []
    monkeypatch.setattr(settings, "TASKS", {})
    assert async_to_sync(find_unknown)() == [(f"{NAME}.add",)]


def test_the_testing_kit_takes_these_tasks(app: App, tasks: Any) -> None:
    with Queue(app) as queue:
        tasks.add.using(lock="a").enqueue(1, b=2)
        queue.assert_enqueued(tasks.add, args={"args": [1], "kwargs": {"b": 2}}, lock="a", count=1)
        queue.assert_not_enqueued(tasks.fail)
        queue.drain()
        queue.assert_lane_order("a", [tasks.add])
        assert queue.perform(tasks.add, 3, b=4) == 7
        assert queue.perform(tasks.send.using(lock="a"), "ann") == {"sent": "ann"}
        with pytest.raises(tasks.SoldOut):
            queue.perform(tasks.fail)


@pytest.mark.parametrize(
    ("name", "args", "kwargs", "problem"),
    [
        ("add", (), {}, r"^add\(\): missing a required argument: 'a'$"),
        ("add", (1, 2, 3), {}, "too many positional arguments"),
        ("add", (1,), {"c": 2}, "unexpected keyword argument 'c'"),
        ("look", (1,), {}, "too many positional arguments"),
        ("send", (), {"to": "ann", "cc": "bob"}, "unexpected keyword argument 'cc'"),
    ],
)
def test_a_call_that_does_not_fit_is_refused_when_it_is_enqueued(
    app: App, tasks: Any, name: str, args: tuple[Any, ...], kwargs: dict[str, Any], problem: str
) -> None:
    task = getattr(tasks, name)
    for call in (task.enqueue, async_to_sync(task.aenqueue), task.make_new_job):
        with pytest.raises(TypeError, match=problem):
            call(*args, **kwargs)
    assert app.job_manager.list_jobs() == []
    assert tasks.look.enqueue().id, "Django passes the context itself"


def test_what_a_task_is_asked_elsewhere_is_answered_with_djangos_call(tasks: Any) -> None:
    with pytest.raises(AttributeError, match=r"^a task of Django has no 'delay'. Use enqueue"):
        tasks.add.delay(1)
    with pytest.raises(AttributeError, match=r"Use using\(…\).enqueue\(…\)$"):
        tasks.add.using(lock="a").apply_async((1,))
    assert not hasattr(tasks.add, "colour")


def test_many_jobs_are_deferred_at_once(app: App, tasks: Any) -> None:
    jobs = [tasks.add.using(lock="a").make_new_job(number) for number in (1, 2)]
    ids = app.job_manager.batch_defer_jobs(jobs)
    work(app)
    assert [tasks.add.get_result(str(int(id))).return_value for id in ids] == [1, 2]


def test_a_task_cannot_be_of_inturn_and_of_django(app: App, tasks: Any) -> None:
    from inturn.django.tasks_api import InvalidTask

    app.tasks.pop(f"{NAME}.add")
    app.task(name=f"{NAME}.add")(lambda: None)
    with pytest.raises(InvalidTask, match="a task of inturn's app already"):
        tasks.add.enqueue(1)


@pytest.mark.parametrize(
    "options", [{"concurrency": 3}, {"lock": ""}, {"on_failure": "explode"}, {"queue": "mail"}]
)
def test_wrong_options_of_the_backend_are_refused(app: App, options: dict[str, Any]) -> None:
    from inturn.django.backend import InturnBackend

    with pytest.raises(BadArgument):
        InturnBackend("default", {"OPTIONS": options})


def test_an_unknown_option_of_the_backend_names_its_setting(app: App) -> None:
    from inturn.django.backend import InturnBackend

    refusal = r"^concurrency is not an option of TASKS\['mail'\]\['OPTIONS'\]\. The options are"
    with pytest.raises(BadArgument, match=refusal):
        InturnBackend("mail", {"OPTIONS": {"concurrency": 3}})


def test_an_unknown_option_of_a_task_names_the_likely_one(tasks: Any) -> None:
    with pytest.raises(
        TypeError, match=r"lokc is not an option of a Django task\. Did you mean lock\?"
    ):
        tasks.add.using(lokc="a")
    with pytest.raises(BadArgument, match="retry is an option of a backend"):
        tasks.add.using(retry=3)


def test_the_backend_checks_that_the_queue_is_installed(app: App) -> None:
    from django.test import modify_settings

    from inturn.django.backend import InturnBackend

    backend = InturnBackend("default", {})
    assert backend.check() == []
    with modify_settings(INSTALLED_APPS={"remove": ["inturn.django"]}):
        assert [message.id for message in backend.check()] == ["inturn.E001"]


def test_without_a_task_framework_the_backend_says_what_to_install() -> None:
    code = (
        "import sys\n"
        "class Refuse:\n"
        "    def find_spec(self, name, path=None, target=None):\n"
        "        if name in ('django.tasks', 'django_tasks'):\n"
        "            raise ModuleNotFoundError(name=name)\n"
        "sys.meta_path.insert(0, Refuse())\n"
        "import inturn.django.tasks_api\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert "Use Django 6, or: pip install django-tasks" in done.stderr
