"""A real Django project, the one in examples/, on its own database, for all tests of a process.

Django can be set up once in a process, so every test that needs it takes this one.
"""

from collections.abc import Iterator
from importlib import import_module
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from inturn.testing import Databases

STORE = Path(__file__).parents[2] / "examples" / "django_store"


@pytest.fixture(scope="session")
def store_dsn(databases: Databases) -> Iterator[str]:
    with databases.empty() as dsn:
        yield dsn


@pytest.fixture(scope="session")
def django(store_dsn: str) -> Iterator[Any]:
    """Django, set up once for this process, and migrated by its own command."""
    # Django keeps what it has read. Other tests must not find our environment.
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("INTURN_DSN", store_dsn)
        patch.setenv("DJANGO_SETTINGS_MODULE", "settings")
        patch.syspath_prepend(str(STORE))
        import django
        from django.core.management import call_command
        from django.db import connection, connections, transaction
        from django.test.utils import setup_test_environment, teardown_test_environment

        django.setup()
        for name in ("urls", "store.orders"):
            import_module(name)
    setup_test_environment()
    call_command("migrate", verbosity=0)
    yield SimpleNamespace(
        call=call_command,
        connection=connection,
        connections=connections,
        transaction=transaction,
    )
    connections.close_all()
    teardown_test_environment()
