"""A real Django project, the one in examples/, on its own database."""

import os
import re
import sqlite3
import subprocess
import sys
import time
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import psycopg
import pytest
from asgiref.sync import async_to_sync
from starlette.testclient import TestClient

from inturn import App, JobContext
from inturn.cli.output.next_command import complete
from inturn.cli.settings import Settings
from inturn.errors import ConfigurationError, ConnectorException, DatabaseUnavailable
from inturn.formatting import name_command
from inturn.operations.changes.jobs import get_job
from inturn.operations.engine.maintenance import check_schema
from inturn.testing import Queue
from inturn.web import Access, create_app
from tests.snapshot import snapshot
from tests.waiting import wait_until

ROOT = Path(__file__).parents[2]
STORE = ROOT / "examples" / "django_store"


class Regret(Exception):
    """Rolls a block back."""


def deferred(dsn: str) -> int:
    """Return how many jobs another connection sees."""
    with psycopg.connect(dsn) as connection:
        [(count,)] = connection.execute("SELECT count(*) FROM inturn.jobs").fetchall()
    return int(count)


def work(app: App) -> None:
    app.run_worker(wait=False, install_signal_handlers=False)


@pytest.mark.parametrize("missing", ["django", "asgiref"])
def test_without_django_the_package_says_what_to_install(missing: str) -> None:
    code = (
        "import sys\n"
        "class Refuse:\n"
        "    def find_spec(self, name, path=None, target=None):\n"
        "        if name.partition('.')[0] == sys.argv[1]:\n"
        "            raise ModuleNotFoundError('No such module', name=sys.argv[1])\n"
        "sys.meta_path.insert(0, Refuse())\n"
        "import inturn.django\n"
        "try: inturn.django.app\n"
        "except ModuleNotFoundError as error: print(error)\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", code, missing], check=True, capture_output=True, text=True
    )
    assert done.stdout == "inturn.django needs Django: pip install 'inturn[django]'\n"


# ---------------------------------------------------------------- transactions


def test_a_job_deferred_in_a_block_exists_when_the_block_commits(
    django: Any, ship: Any, store_dsn: str
) -> None:
    with django.transaction.atomic():
        ship.configure(lock="customer:ann").defer(order=1)
        assert deferred(store_dsn) == 0
    assert deferred(store_dsn) == 1
    with pytest.raises(Regret), django.transaction.atomic():
        ship.defer(order=2)
        raise Regret
    assert deferred(store_dsn) == 1


def test_a_block_inside_of_a_block_takes_its_jobs_back_with_it(
    django: Any, ship: Any, store_dsn: str
) -> None:
    with django.transaction.atomic():
        ship.defer(order=1)
        with pytest.raises(Regret), django.transaction.atomic():
            ship.defer(order=2)
            raise Regret
    assert deferred(store_dsn) == 1


def test_without_a_block_the_job_is_there_when_defer_returns(ship: Any, store_dsn: str) -> None:
    ship.defer(order=1)
    ship.batch_defer({"order": 2}, {"order": 3})
    assert deferred(store_dsn) == 3


def test_from_async_code_too(ship: Any, store_dsn: str) -> None:
    async_to_sync(ship.defer_async)(order=1)
    assert deferred(store_dsn) == 1


@pytest.mark.parametrize("name", ["the alias", "a connection", "the default connection"])
def test_a_connection_can_be_named(django: Any, ship: Any, store_dsn: str, name: str) -> None:
    connection = {"the alias": "default", "a connection": django.connections["default"]}.get(
        name, django.connection
    )
    with pytest.raises(Regret), django.transaction.atomic():
        ship.configure(connection=connection).defer(order=1)
        raise Regret
    assert deferred(store_dsn) == 0
    ship.configure(connection=connection).defer(order=1)
    assert deferred(store_dsn) == 1


@pytest.mark.anyio
async def test_an_app_without_django_takes_a_connection_of_djangos(
    app: App, django: Any, store_dsn: str
) -> None:
    other = App("postgresql://nowhere.invalid/")
    note = other.task(name="note")(lambda: None)
    with pytest.raises(ConfigurationError, match=r"connection is sync \(django.*Use defer with it"):
        await note.configure(connection=django.connection).defer_async()


def test_and_the_job_belongs_to_its_transaction(app: App, django: Any, store_dsn: str) -> None:
    note = App("postgresql://nowhere.invalid/").task(name="note")(lambda: None)
    with pytest.raises(Regret), django.transaction.atomic():
        note.configure(connection=django.connection).defer()
        raise Regret
    assert deferred(store_dsn) == 0
    with django.transaction.atomic():
        note.configure(connection=django.connections["default"], lock="lane").defer()
        assert deferred(store_dsn) == 0
    assert deferred(store_dsn) == 1


def test_another_kind_of_database_is_refused_by_name(ship: Any, store_dsn: str) -> None:
    with pytest.raises(
        ConfigurationError, match=r"database 'elsewhere' is SQLite, but the queue needs PostgreSQL"
    ):
        ship.configure(connection="elsewhere").defer(order=1)
    assert deferred(store_dsn) == 0


def test_a_backend_on_another_driver_is_refused(django: Any, ship: Any, store_dsn: str) -> None:
    foreign = django.connections["default"].copy()
    with closing(sqlite3.connect(":memory:")) as driver:
        foreign.connection = driver
        with pytest.raises(
            ConfigurationError,
            match=r"runs on sqlite3\.Connection\. Use a Django backend on psycopg 3",
        ):
            ship.configure(connection=foreign).defer(order=1)
        foreign.connection = None
    assert deferred(store_dsn) == 0


def test_after_a_refused_defer_django_knows_that_the_transaction_is_lost(
    django: Any, ship: Any
) -> None:
    from django.db.transaction import TransactionManagementError
    from store.models import Order

    with pytest.raises(TransactionManagementError), django.transaction.atomic():
        with django.connection.cursor() as cursor:
            cursor.execute("SET TRANSACTION READ ONLY")
        with pytest.raises(ConnectorException, match="read-only"):
            ship.defer(order=1)
        Order.objects.exists()


def test_after_a_lost_connection_the_next_defer_makes_another(
    django: Any, ship: Any, store_dsn: str
) -> None:
    ship.defer(order=1)
    driver = django.connections["default"].connection
    with psycopg.connect(store_dsn, autocommit=True) as other:
        other.execute("SELECT pg_terminate_backend(%s, 5000)", (driver.info.backend_pid,))
    with pytest.raises(DatabaseUnavailable) as raised:
        ship.defer(order=2)
    assert raised.value.connection_lost
    ship.defer(order=3)
    assert deferred(store_dsn) == 2


def test_the_queues_answers_are_decoded_as_on_any_connection(app: App, ship: Any) -> None:
    job_id = ship.configure(schedule_in={"hours": 1}).defer(order=7)
    record = app.connector.run(get_job(job_id))
    assert record is not None
    assert record.task_kwargs == {"order": 7}
    assert record.scheduled_at is not None
    assert record.scheduled_at.utcoffset() is not None
    assert app.job_manager.explain(job_id)[0].reason == "scheduled"


# ---------------------------------------------------------------- tasks


def test_a_task_uses_djangos_models_and_leaves_no_connection_open(
    app: App, ship: Any, store_dsn: str
) -> None:
    from store.models import Order
    from store.orders import SoldOut, buy

    for customer in ("ann", "bob", "ann"):
        buy(customer)
    with pytest.raises(SoldOut):
        buy("eve", in_stock=False)

    @app.task(name="count")
    async def count() -> None:
        assert await Order.objects.acount() == 3

    count.defer()
    work(app)
    assert list(Order.objects.values_list("shipped", flat=True)) == [True] * 3
    with psycopg.connect(store_dsn, autocommit=True) as connection:
        assert connection.execute(
            "SELECT DISTINCT status::text FROM inturn.all_jobs"
        ).fetchall() == [("succeeded",)]

        def count_others() -> int:
            [(count,)] = connection.execute(
                "SELECT count(*) FROM pg_stat_activity "
                "WHERE datname = current_database() AND pid <> pg_backend_pid()"
            ).fetchall()
            return int(count)

        # This thread's. The server takes a moment to end those that were closed.
        wait_until(lambda: count_others() == 1)


def test_a_task_ends_its_job_in_a_transaction_of_its_own(app: App, store_dsn: str) -> None:
    @app.task(name="pay", pass_context=True)
    def pay(context: JobContext) -> None:
        with context.transaction() as connection:
            connection.execute("INSERT INTO store_order (customer, shipped) VALUES ('ann', false)")

    pay.defer()
    work(app)
    with psycopg.connect(store_dsn) as connection:
        assert connection.execute("SELECT customer FROM store_order").fetchall() == [("ann",)]
        assert connection.execute("SELECT status::text FROM inturn.finished_jobs").fetchall() == [
            ("succeeded",)
        ]


def test_a_connection_that_broke_in_one_task_is_replaced_for_the_next(
    app: App, django: Any
) -> None:
    from django.conf import settings

    seen: list[int] = []

    @app.task(name="break")
    def break_it() -> None:
        with django.connection.cursor() as cursor:
            cursor.execute("SELECT pg_terminate_backend(pg_backend_pid())")

    @app.task(name="look")
    def look() -> None:
        with django.connection.cursor() as cursor:
            cursor.execute("SELECT 1")
        seen.append(1)
        django.connection.close()  # its thread ends with the worker

    assert settings.DATABASES["default"]["CONN_MAX_AGE"] == 0
    settings.DATABASES["default"]["CONN_MAX_AGE"] = (
        None  # connections are kept as long as they are good
    )
    try:
        break_it.defer()
        look.defer()
        work(app)
    finally:
        settings.DATABASES["default"]["CONN_MAX_AGE"] = 0
    assert seen == [1]


def test_a_connection_that_grew_old_between_two_tasks_is_replaced(app: App, django: Any) -> None:
    from django.conf import settings

    used: list[Any] = []
    servers: list[int] = []

    @app.task(name="look")
    def look(last: bool) -> None:
        used.append(django.connections["default"])
        with used[0].cursor() as cursor:
            cursor.execute("SELECT pg_backend_pid()")
            servers.append(cursor.fetchone()[0])
        if last:
            used[0].close()  # its thread ends with the worker

    @app.task(name="age")
    async def age() -> None:
        used[0].close_at = 0.0

    settings.DATABASES["default"]["CONN_MAX_AGE"] = None
    try:
        look.configure(lock="lane").defer(last=False)
        age.configure(lock="lane").defer()
        look.configure(lock="lane").defer(last=True)
        work(app)
    finally:
        settings.DATABASES["default"]["CONN_MAX_AGE"] = 0
    assert used[0] is used[1]
    assert servers[0] != servers[1]


def test_the_helpers_for_tests_go_over_djangos_connection(app: App, django: Any, ship: Any) -> None:
    from store.models import Order
    from store.orders import buy

    with Queue(app) as queue:
        with django.transaction.atomic():
            buy("ann")
            queue.assert_enqueued(
                ship, args={"order": 1}, lock="customer:ann"
            )  # in the same transaction
            with pytest.raises(ConfigurationError, match="1 job waits in this test's own"):
                queue.drain()  # its worker is in another transaction
        start = queue.freeze()
        assert len(queue.drain()) == 1
        assert queue.jobs()[0].started_at == start
        assert queue.perform(ship, order=1) is None
    assert Order.objects.get().shipped


def test_tasks_modules_are_imported_and_defer_by_their_name(app: App) -> None:
    assert set(app.tasks) == {"store.tasks.ship"}


def test_an_unknown_setting_is_refused(app: App) -> None:
    from django.test import override_settings

    from inturn.django.configuration import configuration

    with (
        override_settings(INTURN={"ALIAS": "default"}),
        pytest.raises(
            ConfigurationError, match=r"INTURN has 'ALIAS', which is not one of DATABASE, SCHEMA"
        ),
    ):
        configuration()
    with override_settings(INTURN={"WORKER": {"concurrency": 3}}):
        assert configuration().worker == {"concurrency": 3}


# ---------------------------------------------------------------- migrations


def test_djangos_migrations_are_as_many_as_the_queues() -> None:
    theirs = sorted(
        file.name[:4] for file in (ROOT / "queue/inturn/django/migrations").glob("[0-9]*.py")
    )
    ours = sorted(file.name[:4] for file in (ROOT / "migrations/versions").glob("[0-9]*.up.sql"))
    assert theirs == ours


def test_makemigrations_finds_nothing_to_do(django: Any) -> None:
    django.call("makemigrations", check=True, dry_run=True, verbosity=0)
    django.call("migrate", check_unapplied=True, verbosity=0)


def test_migrate_replaces_functions_of_another_version_too(
    app: App, django: Any, store_dsn: str
) -> None:
    with psycopg.connect(store_dsn) as connection:
        connection.execute("UPDATE inturn.applied_code SET checksum = 'of another version'")
    django.call("migrate", verbosity=0)
    app.connector.run(check_schema(app.connector.schema))


def test_migrate_zero_takes_the_queue_away_and_migrate_brings_it_back(
    app: App, django: Any, store_dsn: str
) -> None:
    before = snapshot(store_dsn)
    django.call("migrate", "inturn", "zero", verbosity=0)
    with psycopg.connect(store_dsn) as connection:
        assert connection.execute("SELECT to_regclass('inturn.jobs')").fetchone() == (None,)
    django.call("migrate", verbosity=0)
    app.connector.run(check_schema(app.connector.schema))
    assert snapshot(store_dsn) == before


# ---------------------------------------------------------------- the command


def environment_of_manage(dsn: str) -> dict[str, str]:
    environment = os.environ | {"INTURN_DSN": dsn, "PYTHONPATH": str(ROOT / "queue")}
    environment.pop("DJANGO_SETTINGS_MODULE", None)
    environment.pop("COLUMNS", None)  # a runner of tests may set it
    return environment


def manage(dsn: str, *arguments: str) -> "subprocess.CompletedProcess[str]":
    return subprocess.run(
        [sys.executable, "manage.py", *arguments],
        cwd=STORE,
        env=environment_of_manage(dsn),
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
    )


@pytest.mark.landing
def test_manage_py_queue_is_the_command_line_with_the_projects_app(
    app: App, ship: Any, store_dsn: str
) -> None:
    from store.orders import buy

    buy("ann")
    listed = manage(store_dsn, "queue", "jobs", "list")
    assert "store.tasks.ship" in listed.stdout, listed.stderr
    worked = manage(store_dsn, "queue", "worker", "--one-shot")
    assert worked.stdout == "order 1 is on its way\n", worked.stderr
    wrong = manage(store_dsn, "queue", "worker", "--no-such-option")
    assert wrong.returncode == 2
    assert "manage.py queue worker" in wrong.stderr


@pytest.mark.parametrize(
    ("module", "settings", "text"),
    [
        ("inturn.django", "settings", "Django is not set up. Run: manage.py queue"),
        ("store.tasks", "settings", "In a Django project, run: manage.py queue"),
        ("inturn.django", None, "In a Django project, run: manage.py queue"),
    ],
)
def test_the_plain_command_names_manage_py_and_does_not_put_back_the_jobs(
    module: str, settings: str | None, text: str, store_dsn: str
) -> None:
    environment = environment_of_manage(store_dsn)
    if settings is not None:
        environment["DJANGO_SETTINGS_MODULE"] = settings
    done = subprocess.run(
        [sys.executable, "-m", "inturn", "-a", f"{module}:app", "worker", "--one-shot"],
        cwd=STORE,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
    )
    assert (done.returncode, text in done.stderr) == (2, True), done.stderr


@pytest.mark.landing
def test_manage_py_queue_worker_starts_the_given_number_of_processes(
    app: App, ship: Any, store_dsn: str, tmp_path: Path
) -> None:
    from store.models import Order
    from store.orders import buy

    buy("ann")
    words = [
        sys.executable,
        str(STORE / "manage.py"),
        "queue",
        "worker",
        "-n",
        "ann",
        "--processes",
        "2",
    ]
    supervisor = subprocess.Popen(
        words, cwd=tmp_path, env=environment_of_manage(store_dsn), text=True, stderr=subprocess.PIPE
    )
    try:
        until(
            lambda: serving(store_dsn) == ["ann-1", "ann-2"] and Order.objects.get().shipped,
            supervisor,
        )
        supervisor.terminate()
        _, log = supervisor.communicate(timeout=120)
        assert supervisor.returncode == 0, log
    finally:
        supervisor.kill()  # its workers notice this, and end
        supervisor.wait()


def until(condition: Callable[[], bool], process: "subprocess.Popen[str]") -> None:
    deadline = time.monotonic() + 60  # only keeps a failing test from hanging
    while not condition():
        if time.monotonic() > deadline:
            process.terminate()
            pytest.fail(process.communicate()[1])
        time.sleep(0.05)


def serving(dsn: str) -> list[str]:
    with psycopg.connect(dsn) as connection:
        return [
            name for (name,) in connection.execute("SELECT name FROM inturn.workers ORDER BY name")
        ]


def test_call_command_works_too(app: App, django: Any, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        django.call("queue", "workers", "list", "--json")
    assert ended.value.code == 0
    assert capsys.readouterr().out.strip() in ("[]", "")


# ---------------------------------------------------------------- the admin


@pytest.fixture
def pages(app: App, ship: Any) -> None:
    ship.configure(lock="customer:ann").batch_defer(*({"order": order} for order in range(1, 4)))
    work(app)
    app.lanes.pause("customer:ann", reason="away")
    app.lanes.pause("customer:bob")
    ship.configure(lock="customer:ann").defer(order=4)


@pytest.mark.usefixtures("pages")
def test_jobs_and_lanes_are_shown_and_nothing_can_be_changed(browser: Any) -> None:
    for kind, key, text in (
        ("job", "4", "customer:ann"),
        ("finishedjob", "2", "store.tasks.ship"),
        ("lane", "customer_3Aann", "away"),
    ):
        listed = browser.get(f"/admin/inturn/{kind}/")
        assert text in listed.content.decode()
        assert browser.get(f"/admin/inturn/{kind}/add/").status_code == 403
        page = browser.get(f"/admin/inturn/{kind}/{key}/change/")
        assert page.status_code == 200
        assert b'name="_save"' not in page.content
        assert browser.post(f"/admin/inturn/{kind}/{key}/change/", {"lock": "x"}).status_code == 403
        assert (
            browser.post(f"/admin/inturn/{kind}/{key}/delete/", {"post": "yes"}).status_code == 403
        )


@pytest.mark.usefixtures("pages")
def test_jobs_are_found_by_number_lock_and_status(browser: Any) -> None:
    def found(address: str) -> int:
        return len(browser.get(f"/admin/inturn/{address}").context["cl"].result_list)

    assert found("finishedjob/?q=2") == 1
    assert found("finishedjob/?status=succeeded") == 3
    assert found("finishedjob/?status=failed") == 0
    assert found("job/?q=customer:ann") == 1
    assert found("job/?status__exact=doing") == 0
    assert found("lane/?state__exact=paused") == 2
    assert found("lane/?q=customer:bob") == 1


@pytest.mark.usefixtures("pages")
def test_no_page_counts_all_rows_or_lists_distinct_values(
    browser: Any, django: Any, ship: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    from django.test.utils import CaptureQueriesContext

    from inturn.django.admin import ReadOnly

    monkeypatch.setattr(ReadOnly, "list_per_page", 1)  # a list that fits on one page needs no limit
    ship.configure(lock="customer:ann").defer(order=5)
    for address in (
        "job/",
        "job/?q=customer:ann",
        "finishedjob/",
        "finishedjob/?status=succeeded",
        "lane/",
        "lane/?p=2",
    ):
        with CaptureQueriesContext(django.connection) as queries:
            browser.get(f"/admin/inturn/{address}")
        ours = [
            query["sql"]
            for query in queries
            if "inturn" in query["sql"] and '"inturn"."' in query["sql"]
        ]
        assert ours
        for statement in ours:
            assert "LIMIT" in statement, statement
            assert "DISTINCT" not in statement, statement
        assert len(ours) == 2, ours


# ---------------------------------------------------------------- the example


@pytest.mark.landing
def test_the_example_runs() -> None:
    done = subprocess.run(
        [sys.executable, STORE / "run.py"], capture_output=True, text=True, check=False, timeout=120
    )
    assert done.returncode == 0, done.stderr
    assert sorted(done.stdout.splitlines()) == [
        "3 of 3 orders are shipped",
        "order 1 is on its way",
        "order 2 is on its way",
        "order 3 is on its way",
    ]


@pytest.mark.parametrize("path", ["/", "/workers", "/jobs/{job}", "/limits"])
def test_the_dashboard_advises_in_commands_of_manage_py(app: App, path: str) -> None:
    job = app.configure_task("store.tasks.ship", lock="order:1").defer(order=1)
    with TestClient(create_app(app, authorize=lambda request: Access.FULL)) as browser:
        page = browser.get(path.format(job=int(job))).text
    commands = re.findall(r"<(?:code|pre)[^>]*>(?:[\w.]+ )?(queue [^<]*)</", page)
    assert commands
    assert page.count("manage.py queue") == len(commands), commands


def test_advice_to_migrate_names_djangos_own_command() -> None:
    ours = Settings(program="./manage.py queue")
    assert complete("run: queue migrate", ours) == "run: ./manage.py migrate"
    assert complete("queue doctor", ours) == "./manage.py queue doctor"
    assert complete("queue migrate", Settings(program="queue")) == "queue migrate"
    assert complete("queue verify --after 7", ours) == "./manage.py queue verify --after 7"
    assert name_command("queue migrate", "manage.py queue") == "manage.py migrate"
