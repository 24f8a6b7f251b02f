"""Check fences in your own code, so that a paused worker cannot write late."""

from inturn.database import caller_connection, drive
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
    operation = fences.check_fence(resource, token)
    drive.run(operation, caller_connection.find_connection(connection), schema)


async def check_fence_async(
    connection: object, resource: str, token: int, *, schema: str = SCHEMA
) -> None:
    """Like `check_fence`, on an async connection.

    async with await psycopg.AsyncConnection.connect(dsn) as connection:
        await check_fence_async(connection, "account:7", 4711)
        await connection.execute("UPDATE accounts SET balance = 0 WHERE id = 7")
    """
    operation = fences.check_fence(resource, token)
    given = await caller_connection.find_connection_async(connection)
    await drive.run_async(operation, given, schema)
