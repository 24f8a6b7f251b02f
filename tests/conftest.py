"""Give every test a real database without jobs, and an app on it.

A process starts one server, migrates one template, and lends one clone of it to one test after
another (see tests/pool.py). A test that creates or changes objects has a clone of its own, by
`@pytest.mark.fresh_database`.
Two variables change that:

* INTURN_TEST_DSN names a server to use instead of an embedded one. Its user must be allowed to
  create databases and roles.
* INTURN_TEST_PG_BIN names the binaries of another PostgreSQL for the embedded server.
"""

import os
from collections.abc import Awaitable, Callable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

import anyio
import hypothesis
import psycopg
import pytest
from psycopg.sql import SQL

from inturn import App
from inturn.schema.migrate import prepare_history
from inturn.testing import Databases
from tests import kept
from tests.lossy import faulty
from tests.pool import Pool
from tests.proxy import Faulty
from tests.roles import APP, as_login, grant_roles
from tests.waiting import pauses
from tests.weight import weigh_server

# On a busy machine, any example can take long.
hypothesis.settings.register_profile("patient", deadline=None)
hypothesis.settings.load_profile("patient")
pytest_plugins = ["pytester", "tests.tiers", "tests.django.project"]
Query = Callable[..., list[tuple[Any, ...]]]
Until = Callable[[Callable[[], object]], Awaitable[None]]
NO_POLL = 600.0  # seconds; so nothing that happens in a test was found by polling
FAST_TAKEOVER: dict[str, Any] = {"update_heartbeat_interval": 0.1, "stalled_worker_timeout": 0.5}
# Variables for tests. Any other of inturn's is for the caller's own programs.
FOR_TESTS = (
    "INTURN_TEST_",
    "INTURN_STRESS_",
    "INTURN_FAIR_",
    "INTURN_GRAPH_",
    "INTURN_WITNESS_",
    "INTURN_TRANSFERS",
    "INTURN_SOURCE",
)
for name in [each for each in os.environ if each.startswith(("INTURN_", "DATABASE_URL"))]:
    if not name.startswith(FOR_TESTS):
        del os.environ[name]
# Where apps log in with the rights to defer, work and operate only (docs/security.md). Elsewhere they
# are superusers.
LEAST_RIGHTS = (
    "control/", "database/", "tasks/", "worker/", "stress/test_crash", "sql/test_defer",
    "package/test_api_reference", "package/test_right_where_others_are_wrong",
)  # fmt: skip
TESTS = Path(__file__).parent


def set_autovacuum(databases: Databases, value: str) -> None:
    if "INTURN_TEST_DSN" in os.environ:
        return  # that server serves others, too
    with psycopg.connect(databases.server_dsn, autocommit=True) as admin:
        admin.execute(SQL("ALTER SYSTEM SET autovacuum = {}").format(value))
        admin.execute("SELECT pg_reload_conf()")


@pytest.fixture(scope="session")
def anyio_backend() -> str:
    return "asyncio"  # psycopg waits on nothing else


@pytest.fixture(scope="session")
def bin_dir() -> Path | None:
    named = os.environ.get("INTURN_TEST_PG_BIN")
    return Path(named) if named else None


@pytest.fixture(scope="session")
def databases(bin_dir: Path | None) -> Iterator[Databases]:
    with Databases(bin_dir=bin_dir) as databases:
        set_autovacuum(databases, "off")  # at any moment, it would change what a test counts
        yield databases
        kept.close()
        weigh_server(databases.server_dsn)


@pytest.fixture(scope="session")
def pool(databases: Databases) -> Iterator[Pool]:
    with closing(make_pool(databases)) as pool:
        yield pool


@pytest.fixture(scope="session")
def granted_databases(databases: Databases) -> Iterator[Databases]:
    """Databases whose owner is not a superuser, with the rights of all roles granted."""
    with Databases(databases.server_dsn, prepare=grant_roles) as granted:
        yield granted


@pytest.fixture(scope="session")
def granted_pool(granted_databases: Databases) -> Iterator[Pool]:
    with closing(make_pool(granted_databases)) as pool:
        yield pool


def make_pool(databases: Databases) -> Pool:
    @contextmanager
    def clone() -> Iterator[str]:
        with databases.clone() as dsn:
            prepare_history(dsn)  # as `queue migrate` does, or each first worker would
            yield dsn

    return Pool(clone)


@pytest.fixture
def dsn(request: pytest.FixtureRequest) -> Iterator[str]:
    """A migrated database that only this test uses now."""
    kind = "granted_" if has_least_rights(request) else ""
    if request.node.get_closest_marker("fresh_database"):
        databases: Databases = request.getfixturevalue(f"{kind}databases")
        with databases.clone() as dsn:
            yield dsn
    else:
        pool: Pool = request.getfixturevalue(f"{kind}pool")
        yield pool.lend()
        pool.take_back()


@pytest.fixture
def app_dsn(request: pytest.FixtureRequest, dsn: str) -> str:
    """The test's database as an app reaches it."""
    return as_login(dsn, APP) if has_least_rights(request) else dsn


def has_least_rights(request: pytest.FixtureRequest) -> bool:
    return request.path.relative_to(TESTS).as_posix().startswith(LEAST_RIGHTS)


@pytest.fixture
def empty_dsn(databases: Databases) -> Iterator[str]:
    """A database of the test's own in which nothing is migrated."""
    with databases.empty() as dsn:
        yield dsn


@pytest.fixture
def app(app_dsn: str) -> Iterator[App]:
    """An open app. Its workers stop when idle, never poll, and leave signals alone."""
    defaults = {
        "wait": False,
        "fetch_job_polling_interval": NO_POLL,
        "install_signal_handlers": False,
    }
    app = App(app_dsn, worker_defaults=defaults)
    with app.open():
        yield app


@pytest.fixture
def query(dsn: str) -> Iterator[Query]:
    """Run SQL in the schema and commit each statement."""
    with kept.session(dsn) as connection:
        yield lambda statement, *parameters: connection.execute(
            statement, parameters or None
        ).fetchall()


@pytest.fixture
def faulty_server(dsn: str) -> Iterator[tuple[Faulty, str]]:
    """A proxy in front of the test's server that can fail, and the address through it."""
    with faulty(dsn) as (proxy, address):
        yield proxy, address


@pytest.fixture
def until() -> Until:
    """Wait for a condition. The limit only keeps a failing test from hanging."""

    async def wait(condition: Callable[[], object]) -> None:
        further = pauses()
        with anyio.fail_after(120):
            while not condition():  # noqa: ASYNC110 (it is in another process or the database)
                await anyio.sleep(next(further))

    return wait
