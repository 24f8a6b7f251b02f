"""The app of the transfer test: jobs move money by reading, computing, and writing what they read.

Nothing but the lanes keeps two transfers of an account from overwriting each other's balance.
"""

import os
import random
import sys
import threading
import time

import psycopg

from inturn import App, shared

app = App()
_own = threading.local()
TABLE = "CREATE TABLE public.accounts (id integer PRIMARY KEY, balance bigint NOT NULL)"
WRONG = "CREATE TABLE public.changes (seen text)"


def connect() -> psycopg.Connection[tuple[int]]:
    """Return this thread's connection."""
    if not hasattr(_own, "connection"):
        _own.connection = psycopg.connect(os.environ["INTURN_DSN"], autocommit=True)
    connection: psycopg.Connection[tuple[int]] = _own.connection
    return connection


def balance(account: int) -> int:
    [(found,)] = connect().execute("SELECT balance FROM public.accounts WHERE id = %s", [account])
    return int(found)


@app.task(name="move", retry=True)
def move(giver: int, taker: int, amount: int, fails: bool) -> None:
    gives, takes = balance(giver), balance(taker)
    time.sleep(random.random() * 0.002)
    if fails and random.random() < 0.5:
        raise RuntimeError("it fails, and is tried again")
    with connect().transaction():
        for account, new in ((giver, gives - amount), (taker, takes + amount)):
            connect().execute(
                "UPDATE public.accounts SET balance = %s WHERE id = %s", [new, account]
            )


@app.task(name="audit", retry=True)
def audit(accounts: list[int]) -> None:
    """Read the balances twice. Nobody moves money of these accounts meanwhile."""
    before = [balance(account) for account in accounts]
    time.sleep(random.random() * 0.005)
    after = [balance(account) for account in accounts]
    if after != before:
        connect().execute("INSERT INTO public.changes VALUES (%s)", [f"{before} {after}"])


def produce(accounts: int, transfers: int, seed: int) -> None:
    """Defer transfers between two accounts each, and now and then an audit of eight accounts."""
    dice = random.Random(seed)
    with app.open():
        for number in range(transfers):
            giver, taker = dice.sample(range(accounts), 2)
            move.configure(
                lock=[f"account:{giver}", f"account:{taker}"],
                priority=dice.choice([0, 0, 0, 1]),
                on_retry=dice.choice(["hold", "release"]),
            ).defer(
                giver=giver, taker=taker, amount=dice.randrange(100), fails=dice.random() < 0.05
            )
            if number % 10 == 5:
                watched = dice.sample(range(accounts), 8)
                readers = [shared(f"account:{account}") for account in watched]
                audit.configure(lock=readers).defer(accounts=watched)


def work() -> None:
    app.run_worker(
        concurrency=8,
        update_heartbeat_interval=0.5,
        stalled_worker_timeout=3.0,
        fetch_job_polling_interval=60,
    )


if __name__ == "__main__":
    if sys.argv[1] == "work":
        work()
    else:
        produce(*map(int, sys.argv[2:]))
