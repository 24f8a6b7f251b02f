"""Fences for user code: what a paused worker writes late is refused."""

from inturn.database import caller_connection, drive
from inturn.errors import BadArgument
from inturn.operations import Operation, fences
from inturn.sql import SCHEMA


def check_fence(connection: object, resource: str, token: int, *, schema: str = SCHEMA) -> None:
    """Raise StaleFence if the resource has seen a higher token. Call it first, in the transaction that writes.

        @app.task(lock="account:7", pass_context=True)
        def withdraw(context: JobContext, amount: int) -> None:
            with psycopg.connect(dsn) as connection:
                check_fence(connection, "account:7", context.fence)
                connection.execute("UPDATE accounts SET balance = balance - %s WHERE id = 7", [amount])

    Whoever comes with a higher token meanwhile waits for your commit. `connection`: as for `defer`; with one that commits each
    statement by itself the check protects nothing. After StaleFence the transaction can only be rolled back.
    """
    drive.run(_checked(resource, token), caller_connection.find_connection(connection), schema)


async def check_fence_async(
    connection: object, resource: str, token: int, *, schema: str = SCHEMA
) -> None:
    """Like `check_fence`, on an async connection.

    async with await psycopg.AsyncConnection.connect(dsn) as connection:
        await check_fence_async(connection, "account:7", 4711)
        await connection.execute("UPDATE accounts SET balance = 0 WHERE id = 7")
    """
    await drive.run_async(
        _checked(resource, token), await caller_connection.find_connection_async(connection), schema
    )


def _checked(resource: object, token: object) -> Operation[None]:
    if (
        not isinstance(resource, str)
        or "\0" in resource
        or not 1 <= len(resource.encode(errors="replace")) <= 1024
    ):
        raise BadArgument(
            "resource", f"{resource!r:.80}: give 1 to 1,024 bytes of text that name it"
        )
    if isinstance(token, bool) or not isinstance(token, int) or not -(2**63) <= token < 2**63:
        raise BadArgument("token", f"{token!r:.80}: give the fence of the run, context.fence")
    return fences.check(resource, token)
