"""Find the psycopg connection beneath whatever a caller passes as `connection=`.

SQLAlchemy and Django are recognised by the modules of their classes, so that they need not be
imported. Drivers other than psycopg 3 are refused: a job that is sent over a second connection
would not be part of the caller's transaction.
"""

from typing import Any

import psycopg

from inturn.errors import ConfigurationError

KNOWN = (
    "a psycopg connection, a SQLAlchemy Connection, Session, AsyncConnection or AsyncSession "
    "on psycopg, or a Django connection"
)


def find_connection(connection: Any) -> psycopg.Connection[Any]:
    """Return the sync psycopg connection beneath this one, for `defer`."""
    if isinstance(connection, psycopg.Connection):
        return connection
    match _sqlalchemy_class(connection):
        case "Session" | "scoped_session":
            return _check_sync(connection.connection().connection.driver_connection)
        case "Connection":
            if not connection.in_transaction():
                # Its own execute() would do this. Without it, commit() has nothing to commit.
                connection.begin()
            return _check_sync(connection.connection.driver_connection)
    if _is_django(connection):
        return django_driver(connection)
    if isinstance(connection, psycopg.AsyncConnection) or _sqlalchemy_class(connection).startswith(
        ("Async", "async")
    ):
        raise ConfigurationError(
            f"connection is async ({_class_name(connection)}). Use defer_async with it"
        )
    raise ConfigurationError(f"connection is a {_class_name(connection)}. Pass {KNOWN}")


async def find_connection_async(connection: Any) -> psycopg.AsyncConnection[Any]:
    """Return the async psycopg connection beneath this one, for `defer_async`."""
    if isinstance(connection, psycopg.AsyncConnection):
        return connection
    match _sqlalchemy_class(connection):
        case "AsyncSession" | "async_scoped_session":
            return _check_async(
                (await (await connection.connection()).get_raw_connection()).driver_connection
            )
        case "AsyncConnection":
            if not connection.in_transaction():
                await connection.begin()
            return _check_async((await connection.get_raw_connection()).driver_connection)
    if (
        isinstance(connection, psycopg.Connection)
        or _sqlalchemy_class(connection)
        or _is_django(connection)
    ):
        raise ConfigurationError(
            f"connection is sync ({_class_name(connection)}). Use defer with it"
        )
    raise ConfigurationError(f"connection is a {_class_name(connection)}. Pass {KNOWN}")


def django_driver(connection: Any) -> psycopg.Connection[Any]:
    """Return the psycopg connection of a Django connection, and open it if need be."""
    if connection.vendor != "postgresql":
        raise ConfigurationError(
            f"Django's database {connection.alias!r} is {connection.display_name}, but the queue "
            "needs PostgreSQL. Give the alias of a PostgreSQL database"
        )
    connection.ensure_connection()
    return _check_sync(connection.connection)


def _check_sync(driver: object) -> psycopg.Connection[Any]:
    if isinstance(driver, psycopg.Connection):
        return driver
    raise _refuse_driver(driver)


def _check_async(driver: object) -> psycopg.AsyncConnection[Any]:
    if isinstance(driver, psycopg.AsyncConnection):
        return driver
    raise _refuse_driver(driver)


def _refuse_driver(driver: object) -> ConfigurationError:
    return ConfigurationError(
        f"connection runs on {_class_name(driver)}, but a job can only join a "
        "transaction of psycopg 3. Create the engine with postgresql+psycopg://, "
        "or give Django a backend on psycopg 3"
    )


def _sqlalchemy_class(connection: object) -> str:
    """Return the name of its first SQLAlchemy class, or an empty string."""
    for base in type(connection).__mro__:
        if base.__module__.startswith("sqlalchemy."):
            return base.__name__
    return ""


def _is_django(connection: object) -> bool:
    """Return True for `django.db.connection`, a proxy, or one of `django.db.connections`."""
    return any(
        base.__module__.startswith(("django.db.", "django.utils.connection"))
        for base in type(connection).__mro__
    )


def _class_name(value: object) -> str:
    return f"{type(value).__module__}.{type(value).__name__}".removeprefix("builtins.")
