"""The setting INTURN, and what an app of Django's has beyond any other App."""

from typing import Any

import psycopg
import pytest
from asgiref.sync import async_to_sync

from inturn import App, PsycopgConnector
from inturn.errors import ConfigurationError

READY: list[App] = []


def note_ready(app: App) -> None:
    """Stand for a project's ON_APP_READY."""
    READY.append(app)


def start_again() -> None:
    """Call `ready` as Django does at its start."""
    from django.apps import apps

    apps.get_app_config("inturn").ready()


def test_a_function_is_called_with_the_app_when_django_starts(app: App) -> None:
    from django.test import override_settings

    READY.clear()
    with override_settings(INTURN={"ON_APP_READY": f"{__name__}.note_ready"}):
        start_again()
    assert [app] == READY


def test_a_worker_on_another_kind_of_database_says_so(app: App) -> None:
    from inturn.django.connector import DjangoConnector

    elsewhere = DjangoConnector("elsewhere", schema="inturn")
    with (
        app.replace_connector(elsewhere),
        pytest.raises(ConfigurationError, match="'elsewhere' is SQLite, but the queue needs"),
    ):
        app.run_worker(wait=False)


def test_discovery_can_be_turned_off(app: App, monkeypatch: pytest.MonkeyPatch) -> None:
    import sys

    from django.test import override_settings

    def discovers(tasks: str | None) -> bool:
        with monkeypatch.context() as patch, override_settings(INTURN={"TASKS": tasks}):
            patch.delitem(sys.modules, "store.orders")
            start_again()
            return "store.orders" in sys.modules

    assert discovers("orders")
    assert not discovers(None)
    assert not discovers("")
    assert not discovers("other_tasks")


def test_the_app_has_the_import_paths_worker_and_periodic_defaults_of_the_settings(
    app: App,
) -> None:
    from django.test import override_settings

    from inturn.django.current import _make_app

    setting = {
        "IMPORT_PATHS": ["store.orders"],
        "WORKER": {"concurrency": 3},
        "PERIODIC": {"max_delay": 5},
        "SCHEMA": "jobs",
    }
    with override_settings(INTURN=setting):
        made = _make_app()
    assert made.import_paths == ["store.orders"]
    assert made.worker_defaults == {"concurrency": 3}
    assert made.misfires.max_delay.total_seconds() == 5
    assert made.connector.schema == "jobs"


@pytest.mark.parametrize(
    ("name", "key"),
    [
        ("AUTODISCOVER_MODULE_NAME", "TASKS"),
        ("IMPORT_PATHS", "IMPORT_PATHS"),
        ("DATABASE_ALIAS", "DATABASE"),
        ("WORKER_DEFAULTS", "WORKER"),
        ("PERIODIC_DEFAULTS", "PERIODIC"),
        ("ON_APP_READY", "ON_APP_READY"),
        ("READONLY_MODELS", "READONLY_MODELS"),
    ],
)
def test_a_setting_named_as_procrastinate_names_it_is_refused_with_the_right_key(
    app: App, name: str, key: str
) -> None:
    from django.test import override_settings

    from inturn.django.configuration import configuration

    with (
        override_settings(**{f"INTURN_{name}": None}),
        pytest.raises(ConfigurationError, match=rf"INTURN = \{{'{key}': …\}}"),
    ):
        configuration()


def test_cells_are_refused_with_the_way_to_use_them(
    app: App, monkeypatch: pytest.MonkeyPatch
) -> None:
    from django.test import override_settings

    from inturn.django.configuration import configuration

    words = r"inturn.django serves one database. Remove it, and declare .* on an App\(cells=…\)"
    with (
        override_settings(INTURN={"CELLS": "inturn_cells.toml"}),
        pytest.raises(ConfigurationError, match=words),
    ):
        configuration()
    monkeypatch.setenv("INTURN_CELLS", "inturn_cells.toml")
    with pytest.raises(ConfigurationError, match=words):
        configuration()


def test_the_app_is_reached_through_its_configuration_too(app: App) -> None:
    from django.apps import apps

    assert apps.get_app_config("inturn").app is app


def test_an_app_for_one_test_keeps_its_tasks_to_itself(app: App) -> None:
    from inturn.django import DjangoApp

    new = DjangoApp(connector=app.connector)
    add = new.task(name="add")(lambda a, b: a + b)
    job = add.defer(a=1, b=2)
    new.run_worker(wait=False, install_signal_handlers=False)
    assert job.result(timeout=30) == 3
    assert "add" not in app.tasks
    assert DjangoApp().connector.dsn == app.connector.dsn


def test_the_parameters_of_a_database_make_a_connector(app: App, ship: Any, store_dsn: str) -> None:
    from inturn.django import connector_params

    with App(connector=PsycopgConnector(**connector_params())).open() as other:
        other.configure_task("store.tasks.ship").defer(order=1)
    with App(connector=PsycopgConnector(kwargs=connector_params("default"))).open() as other:
        other.configure_task("store.tasks.ship").defer(order=2)
    with psycopg.connect(store_dsn) as connection:
        assert connection.execute("SELECT count(*) FROM inturn.jobs").fetchone() == (2,)


def test_a_script_for_procrastinate_runs_its_worker(app: App, ship: Any) -> None:
    job = ship.defer(order=1)
    with app.replace_connector(app.connector.get_worker_connector()):  # type: ignore[attr-defined]
        app.run_worker(wait=False, install_signal_handlers=False, listen_notify=False)
    assert app.job_manager.get_job_status(job) == "succeeded"


@pytest.mark.parametrize("is_async", [False, True])
def test_djangos_log_of_queries_is_emptied_after_each_task(
    app: App, django: Any, is_async: bool
) -> None:
    from django.test import override_settings
    from store.models import Order

    logs: list[tuple[int, int]] = []

    def count() -> None:
        before = len(django.connection.queries)
        Order.objects.count()
        logs.append((before, len(django.connection.queries)))

    async def count_async() -> None:
        from asgiref.sync import sync_to_async

        await sync_to_async(count)()

    task = app.task(name="count")(count_async if is_async else count)
    task.configure(lock="a").batch_defer({}, {})
    with override_settings(DEBUG=True):
        app.run_worker(wait=False, install_signal_handlers=False, concurrency=1)
    assert [before for before, _ in logs] == [0, 0]
    assert all(after > 0 for _, after in logs)


def test_an_async_view_defers(ship: Any, store_dsn: str) -> None:
    from django.http import HttpRequest, HttpResponse

    async def view(request: HttpRequest) -> HttpResponse:
        return HttpResponse(str(await ship.defer_async(order=1)))

    async_to_sync(view)(HttpRequest())
    with psycopg.connect(store_dsn) as connection:
        assert connection.execute("SELECT count(*) FROM inturn.jobs").fetchone() == (1,)


def test_on_commit_defers_only_if_the_block_commits(django: Any, ship: Any, store_dsn: str) -> None:
    with django.transaction.atomic():
        django.transaction.on_commit(lambda: ship.defer(order=1))
    with pytest.raises(ZeroDivisionError), django.transaction.atomic():
        django.transaction.on_commit(lambda: ship.defer(order=2))
        _ = 1 / 0
    with psycopg.connect(store_dsn) as connection:
        assert connection.execute("SELECT args FROM inturn.jobs").fetchall() == [({"order": 1},)]
