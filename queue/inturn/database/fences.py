"""Check fences in your own code, so that a paused worker cannot write late."""

from inturn.database import caller_connection, drive
from inturn.errors import BadArgument
from inturn.operations import Operation
from inturn.operations.engine import fences
from inturn.sql import SCHEMA


def check_fence(connection: object, resource: str, token: int, *, schema: str = SCHEMA) -> None:
    """Raise StaleFence if the resource has seen a higher token.

    Call it at the start of the transaction that writes.

        @app.task(lock="account:7", pass_context=True)
        def withdraw(context: JobContext, amount: int) -> None:
            with psycopg.connect(dsn) as connection:
                check_fence(connection, "account:7", context.fence)
                update = "UPDATE accounts SET balance = balance - %s WHERE id = 7"
                connection.execute(update, [amount])

    A call with a higher token waits until your transaction has ended. `connection` can be anything
    that `defer` accepts. On a connection in autocommit mode the check protects nothing. After
    StaleFence, you can only roll back the transaction.
    """
    drive.run(_check(resource, token), caller_connection.find_connection(connection), schema)


async def check_fence_async(
    connection: object, resource: str, token: int, *, schema: str = SCHEMA
) -> None:
    """Like `check_fence`, on an async connection.

    async with await psycopg.AsyncConnection.connect(dsn) as connection:
        await check_fence_async(connection, "account:7", 4711)
        await connection.execute("UPDATE accounts SET balance = 0 WHERE id = 7")
    """
    await drive.run_async(
        _check(resource, token), await caller_connection.find_connection_async(connection), schema
    )


def _check(resource: object, token: object) -> Operation[None]:
    if (
        not isinstance(resource, str)
        or "\0" in resource
        or not 1 <= len(resource.encode(errors="replace")) <= 1024
    ):
        raise BadArgument(
            "resource", f"{resource!r:.80} is not a valid name. Use 1 to 1,024 bytes of text"
        )
    if isinstance(token, bool) or not isinstance(token, int) or not -(2**63) <= token < 2**63:
        raise BadArgument(
            "token", f"{token!r:.80} is not a fence. Pass the attempt's context.fence"
        )
    return fences.check_fence(resource, token)
