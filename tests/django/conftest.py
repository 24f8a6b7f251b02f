"""The app of the example project, and a browser on its admin (see project.py)."""

from collections.abc import Iterator
from typing import Any

import psycopg
import pytest

from inturn import App


@pytest.fixture
def app(django: Any) -> Iterator[App]:
    """The project's app, with an empty queue."""
    from inturn.django import app

    with psycopg.connect(app.connector.dsn, autocommit=True) as connection:
        connection.execute(
            "TRUNCATE inturn.jobs, inturn.waits, inturn.lanes, inturn.finished_jobs, "
            "inturn.batches, inturn.batch_gates, inturn.batch_events, store_order RESTART IDENTITY"
        )
    yield app
    for name in set(app.tasks) - {"store.tasks.ship"}:
        app.tasks.pop(name)
        app._wrapped.pop(name, None)


@pytest.fixture
def ship(app: App) -> Any:
    return app.tasks["store.tasks.ship"]


@pytest.fixture
def browser(app: App, django: Any) -> Any:
    from django.contrib.auth.models import User
    from django.test import Client

    user, _ = User.objects.get_or_create(username="root", is_staff=True, is_superuser=True)
    client = Client()
    client.force_login(user)
    return client
