"""Tests of a Django project, run by Django's test runner and by pytest-django.

Each test here writes a module of tests, runs it in a process of its own, and reads the outcome.
"""

import os
import re
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from textwrap import dedent
from typing import Any

import psycopg
import pytest

from inturn.cells.move_tables import list_tables
from inturn.django.management.commands import flush
from inturn.testing import Databases

pytestmark = pytest.mark.landing

ROOT = Path(__file__).parents[2]
STORE = ROOT / "examples" / "django_store"
Run = Callable[..., "subprocess.CompletedProcess[str]"]
IMPORTS = """
import django

django.setup()

from django.db import connection
from django.test import TestCase, TransactionTestCase

from inturn.django import app
from inturn.errors import ConfigurationError
from inturn.testing import Queue
from store.models import Order
from store.orders import buy
from store.tasks import ship
"""


@pytest.fixture(scope="module")
def project_dsn(databases: Databases) -> Iterator[str]:
    """The database that the project's settings name. Its test database is another one."""
    with databases.clone() as dsn:
        yield dsn


@pytest.fixture
def run(project_dsn: str, tmp_path: Path) -> Run:
    """Run a module of tests with a program, in a process of its own."""

    def run(text: str, *words: str) -> "subprocess.CompletedProcess[str]":
        (tmp_path / "test_store.py").write_text(IMPORTS + dedent(text), encoding="utf-8")
        path = os.pathsep.join(map(str, [tmp_path, STORE, ROOT / "queue"]))
        return subprocess.run(
            [sys.executable, "-m", *words],
            cwd=tmp_path,
            env=os.environ
            | {"INTURN_DSN": project_dsn, "DJANGO_SETTINGS_MODULE": "settings", "PYTHONPATH": path},
            capture_output=True,
            text=True,
            check=False,
            timeout=300,
        )

    return run


def check_django(done: "subprocess.CompletedProcess[str]", count: int) -> None:
    assert done.returncode == 0, done.stderr
    assert f"Ran {count} test" in done.stderr
    assert "skipped" not in done.stderr


def test_no_job_leaks_from_one_transaction_test_case_into_the_next(run: Run) -> None:
    done = run(
        """
        class First(TransactionTestCase):
            def test_it(self):
                with Queue(app) as queue:
                    queue.assert_not_enqueued()
                    self.assertEqual(queue.jobs(), [])
                    app.lanes.pause("customer:eve")
                    buy("ann")
                    queue.drain()
                    buy("bob")

        class Second(First):
            def test_it(self):
                self.assertEqual(app.lanes.list(), [])
                super().test_it()

        class Third(Second): ...
        """,
        "django",
        "test",
        "test_store",
    )
    check_django(done, 3)


def test_flush_empties_the_queue_once_you_have_said_yes(databases: Databases) -> None:
    with databases.empty() as dsn, psycopg.connect(dsn, autocommit=True) as connection:

        def manage(*words: str, answer: str = "") -> str:
            return subprocess.run(
                [sys.executable, "manage.py", *words],
                cwd=STORE,
                env=os.environ | {"INTURN_DSN": dsn, "PYTHONPATH": str(ROOT / "queue")},
                input=answer,
                capture_output=True,
                text=True,
                check=True,
                timeout=120,
            ).stdout

        def count() -> tuple[Any, ...] | None:
            return connection.execute(
                "SELECT count(*) FROM (SELECT id FROM inturn.jobs "
                "UNION ALL SELECT job_id FROM inturn.progress) AS rows"
            ).fetchone()

        manage("migrate", "--verbosity=0")
        connection.execute("SELECT inturn.defer('shop.ship', lock => 'a')")
        connection.execute("INSERT INTO inturn.progress VALUES (1, 1, 1, NULL, NULL, now())")
        assert "Flush cancelled" in manage("flush", answer="no\n")
        assert count() == (2,)
        manage("flush", answer="yes\n")
        assert count() == (0,)
        connection.execute("SELECT inturn.defer('shop.ship', lock => 'a')")
        manage("flush", "--no-input", "--verbosity=0")
        assert count() == (0,)


def test_flush_empties_each_table_that_a_test_can_fill() -> None:
    kept = {"granted_roles", "workers"}
    emptied = set(re.findall(r"DELETE FROM {schema}\.(\w+)", flush.EMPTY))
    assert emptied == set(list_tables()) - kept


def test_drain_leaves_no_connection_that_keeps_the_test_database(run: Run) -> None:
    done = run(
        """
        connection.settings_dict["CONN_MAX_AGE"] = None  # connections are kept

        @app.task(name="look")
        async def look() -> None:
            assert await Order.objects.acount() == 1

        class Tests(TransactionTestCase):
            def test_it(self):
                buy("ann")
                look.defer()
                with Queue(app) as queue:
                    queue.drain(until=lambda: Order.objects.filter(shipped=True).exists())
                    queue.drain()
        """,
        "django",
        "test",
        "test_store",
    )
    check_django(done, 1)


def test_drain_in_a_test_case_raises_and_names_the_way_out(run: Run) -> None:
    done = run(
        """
        class Tests(TestCase):
            def test_drain(self):
                with Queue(app) as queue:
                    buy("ann")
                    with self.assertRaisesRegex(ConfigurationError, "(?s)1 job.*own transaction"
                                                ".*store.tasks.ship.*TransactionTestCase"):
                        queue.drain()
                    queue.assert_enqueued(ship, count=1)

            async def test_drain_async(self):
                with Queue(app) as queue:
                    await ship.defer_async(order=7)
                    with self.assertRaisesRegex(ConfigurationError, "TransactionTestCase"):
                        await queue.drain_async()

            def test_drain_with_nothing_to_run(self):
                with Queue(app) as queue:
                    self.assertEqual(queue.drain(), [])

            def test_perform(self):
                with Queue(app) as queue:
                    order = Order.objects.create(customer="ann")
                    with self.assertRaisesRegex(ConfigurationError, "TransactionTestCase"):
                        queue.perform(ship, order=order.pk)
                    self.assertEqual(queue.jobs(), [])
                    ship(order=order.pk)  # what the message says
                    order.refresh_from_db()
                    self.assertTrue(order.shipped)

            async def test_perform_async(self):
                with Queue(app) as queue:
                    with self.assertRaisesRegex(ConfigurationError, "TransactionTestCase"):
                        await queue.perform_async(ship, order=7)

        class Outside(TransactionTestCase):
            def test_drain_and_perform(self):
                with Queue(app) as queue:
                    buy("ann")
                    self.assertEqual(len(queue.drain()), 1)
                    queue.perform(ship, order=7)

            async def test_async(self):
                with Queue(app) as queue:
                    await ship.defer_async(order=7)
                    self.assertEqual(len(await queue.drain_async()), 1)
        """,
        "django",
        "test",
        "test_store",
    )
    check_django(done, 7)


PYTEST = ("pytest", "-q", "-p", "no:cacheprovider", "-p", "no:xdist", "-p", "no:inturn")
WITH_APP = (*PYTEST, "-p", "inturn.testing.plugin", "-o", "inturn_app=inturn.django:app")


def test_the_fixture_uses_djangos_test_database(run: Run) -> None:
    done = run(
        """
        import pytest

        def test_marked_by_the_fixture_alone(inturn_queue):
            buy("ann")
            assert connection.settings_dict["NAME"].startswith("test_")
            inturn_queue.assert_enqueued(ship, count=1)
            assert len(inturn_queue.drain()) == 1
            assert Order.objects.get().shipped

        def test_of_its_own(inturn_queue):
            assert inturn_queue.jobs() == []

        @pytest.mark.django_db(transaction=True)
        def test_with_the_mark(inturn_queue):
            assert inturn_queue.jobs() == []
            buy("ann")
            inturn_queue.drain()
            assert Order.objects.get().shipped

        @pytest.mark.django_db
        def test_in_a_transaction(inturn_queue):
            assert inturn_queue.jobs() == []
            buy("ann")
            inturn_queue.assert_enqueued(ship, lock="customer:ann")
            with pytest.raises(ConfigurationError, match="transaction=True"):
                inturn_queue.drain()

        def test_with_the_fixture_of_a_transaction(db, inturn_queue):
            assert inturn_queue.jobs() == []
            buy("ann")
            with pytest.raises(ConfigurationError, match="transaction=True"):
                inturn_queue.drain()
        """,
        *WITH_APP,
        "-p",
        "django",
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert "5 passed" in done.stdout


def test_without_pytest_django_the_fixture_does_not_touch_your_database(run: Run) -> None:
    done = run("def test_it(inturn_queue): buy('ann')", *WITH_APP, "-p", "no:django")
    assert "1 error" in done.stdout, done.stdout + done.stderr
    assert "Install pytest-django" in done.stdout


def test_a_queue_of_djangos_app_takes_no_other_database(run: Run, project_dsn: str) -> None:
    done = run(
        """
        class Tests(TestCase):
            def test_it(self):
                with self.assertRaisesRegex(ConfigurationError, "Omit the DSN"):
                    Queue(app, "postgresql://nowhere.invalid/")
        """,
        "django",
        "test",
        "test_store",
    )
    check_django(done, 1)
