"""Find the driver connection beneath whatever a caller passes as `connection=`.

SQLAlchemy, Django, asyncpg and psycopg 2 are recognised by the modules of their classes, so they
need not be imported. Other drivers are refused: a job sent over a second connection would not be
part of the caller's transaction.
"""

from typing import Any

import psycopg

from inturn.database.drive import AsyncConnection, Connection
from inturn.database.foreign_drivers import (
    AsyncpgConnection,
    Psycopg2Connection,
    sqlalchemy_on_asyncpg,
)
from inturn.errors import ConfigurationError

KNOWN = (
    "a psycopg, psycopg2 or asyncpg connection, a SQLAlchemy Connection, Session, AsyncConnection "
    "or AsyncSession on one of them, or a Django connection"
)


def find_connection(connection: Any) -> Connection:
    """Return the sync connection beneath this one, for `defer`."""
    match kind := _sqlalchemy_class(connection):
        case "Session" | "scoped_session":
            return _check_sync(connection.connection().connection.driver_connection)
        case "Connection":
            if not connection.in_transaction():
                # Its own execute() would do this. Otherwise commit() has nothing to commit.
                connection.begin()
            return _check_sync(connection.connection.driver_connection)
    if _is_django(connection):
        return django_driver(connection)
    if (own := _find_sync(connection)) is not None:
        return own
    if (
        isinstance(connection, psycopg.AsyncConnection)
        or _is_asyncpg(connection)
        or kind.startswith(("Async", "async"))
    ):
        raise ConfigurationError(
            f"connection is async ({_class_name(connection)}). Use defer_async with it"
        )
    raise ConfigurationError(f"connection is a {_class_name(connection)}. Pass {KNOWN}")


async def find_connection_async(connection: Any) -> AsyncConnection:
    """Return the async connection beneath this one, for `defer_async`."""
    if isinstance(connection, psycopg.AsyncConnection):
        return connection
    if _is_asyncpg(connection):
        return AsyncpgConnection(connection, lambda text, values: connection.fetch(text, *values))
    match kind := _sqlalchemy_class(connection):
        case "AsyncSession" | "async_scoped_session":
            return await _find_in_sqlalchemy(await connection.connection())
        case "AsyncConnection":
            if not connection.in_transaction():
                await connection.begin()
            return await _find_in_sqlalchemy(connection)
    if kind or _is_django(connection) or _find_sync(connection) is not None:
        raise ConfigurationError(
            f"connection is sync ({_class_name(connection)}). Use defer with it"
        )
    raise ConfigurationError(f"connection is a {_class_name(connection)}. Pass {KNOWN}")


def check_django(connection: Any) -> None:
    """Raise ConfigurationError if this connection of Django's is to another kind of database."""
    if connection.vendor != "postgresql":
        raise ConfigurationError(
            f"Django's database {connection.alias!r} is {connection.display_name}, but the queue "
            "needs PostgreSQL. Use the alias of a PostgreSQL database"
        )


def django_driver(connection: Any) -> psycopg.Connection[Any]:
    """Return the psycopg connection of a Django connection, opening it if necessary."""
    check_django(connection)
    connection.ensure_connection()
    if isinstance(connection.connection, psycopg.Connection):
        return connection.connection
    raise ConfigurationError(
        f"connection runs on {_class_name(connection.connection)}. Use a Django backend on psycopg "
        "3, which is the default"
    )


async def _find_in_sqlalchemy(connection: Any) -> AsyncConnection:
    driver = (await connection.get_raw_connection()).driver_connection
    if isinstance(driver, psycopg.AsyncConnection):
        return driver
    if _is_asyncpg(driver):
        return sqlalchemy_on_asyncpg(connection, driver)
    raise _refuse_driver(driver)


def _check_sync(driver: object) -> Connection:
    if (own := _find_sync(driver)) is not None:
        return own
    raise _refuse_driver(driver)


def _find_sync(driver: object) -> Connection | None:
    """Return what `drive` needs for a sync driver's connection, or None if it is not one."""
    if isinstance(driver, psycopg.Connection):
        return driver
    if _is_of(driver, "psycopg2.extensions", "connection"):
        return Psycopg2Connection(driver)
    return None


def _is_asyncpg(connection: object) -> bool:
    """Return True for an asyncpg connection, or one lent by its pool."""
    return _is_of(connection, "asyncpg.", "Connection", "PoolConnectionProxy")


def _refuse_driver(driver: object) -> ConfigurationError:
    return ConfigurationError(
        f"connection runs on {_class_name(driver)}, but a job can only join a transaction of "
        "psycopg, psycopg2 or asyncpg. Create the engine with postgresql+psycopg://, or use "
        "defer_async with an async one"
    )


def _sqlalchemy_class(connection: object) -> str:
    """Return the name of its first SQLAlchemy class, or an empty string."""
    for base in type(connection).__mro__:
        if base.__module__.startswith("sqlalchemy."):
            return base.__name__
    return ""


def _is_django(connection: object) -> bool:
    """Return True for `django.db.connection`, a proxy, or one of `django.db.connections`."""
    return _is_of(connection, "django.db.") or _is_of(connection, "django.utils.connection")


def _is_of(value: object, module: str, *names: str) -> bool:
    """Return True if one of its classes is from these modules, and has one of the names, if any."""
    return any(
        base.__module__.startswith(module) and (not names or base.__name__ in names)
        for base in type(value).__mro__
    )


def _class_name(value: object) -> str:
    return f"{type(value).__module__}.{type(value).__name__}".removeprefix("builtins.")
