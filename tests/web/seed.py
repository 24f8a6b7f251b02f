"""A queue in which every state occurs, with texts that want to be more than text.

Real workers make the states: they fail jobs, hold lanes and die.
"""

import contextlib
from collections.abc import Iterator
from contextlib import contextmanager
from threading import Event, Thread
from typing import Any

import psycopg

from inturn import App, JobContext, RetryStrategy
from tests.waiting import wait_until
from tests.web.operated import name_person

LIMIT = 120.0  # seconds; the machine may be busy
NO_POLL = 600.0
LONG = 3600  # seconds; longer than any test


def hostile(place: str) -> str:
    """Return a text that runs a script wherever it is not escaped. It says where it came from."""
    script = f"window.hacked='{place}'"
    return (
        f"{place}<script>{script}</script><img src=x onerror={script}>"
        f'\' onmouseover={script} " onfocus={script} autofocus x="</title></textarea></style>-->'
        f"<svg onload={script}>{{{{7-7}}}}`${{{script}}}`\x1b[31m\u202e%3Cscript%3E/../a?b=c#d&amp;"
    )


LOCK = hostile("lock")
TASK = hostile("task")
QUEUE = "q<svg onload=window.hacked='queue'>\"'/..?a=b#c"


class Shop:
    """An app whose tasks do what a test asks for."""

    def __init__(self, dsn: str) -> None:
        defaults: dict[str, Any] = {
            "wait": False,
            "fetch_job_polling_interval": NO_POLL,
            "install_signal_handlers": False,
            "stalled_worker_timeout": 30 * LONG,  # a worker that has died stays to be seen
        }
        self.app = app = App(dsn, worker_defaults=defaults)
        self.may_end = Event()
        self.works = Event()  # from then on, what failed before succeeds

        @app.task(name="mail.send")
        def send(**_: Any) -> str:
            return "sent"

        @app.task(name="shop.charge", retry=RetryStrategy(max_attempts=3, wait=LONG))
        def charge(**_: Any) -> None:
            if not self.works.is_set():
                raise RuntimeError("card declined")

        @app.task(name="shop.ship", on_failure="halt")
        def ship(**_: Any) -> None:
            if not self.works.is_set():
                raise ValueError("no address")

        @app.task(name="report.export", pass_context=True)
        def export(context: JobContext, /, **_: Any) -> None:
            while not self.may_end.wait(0.05) and not context.should_abort():
                pass

        @app.task(name="evil.fail", on_failure="halt")
        def fail(**_: Any) -> None:
            raise ValueError(hostile("error"))

        @app.task(name="evil.return", pass_context=True)
        def give_back(context: JobContext, /, **_: Any) -> dict[str, str]:
            context.progress(1, 2, hostile("progress"))
            return {hostile("result key"): hostile("result")}

        self.send, self.charge, self.ship, self.export = send, charge, ship, export
        self.fail, self.give_back = fail, give_back

    def work(self, **options: Any) -> None:
        """Run what can run, in a thread: Playwright has a loop in the thread of the test."""
        thread = self.start(**options)
        thread.join(LIMIT)
        assert not thread.is_alive(), "the worker does not end"

    def start(self, **options: Any) -> Thread:
        """Start a worker that ends when nothing is left to do."""
        thread = Thread(target=self.app.run_worker, kwargs=options, name="worker of the shop")
        thread.start()
        return thread

    @contextmanager
    def working(self, **options: Any) -> Iterator[None]:
        """Let a worker run beside the block. At its end, exports may end."""
        thread = self.start(**options)
        try:
            yield
        finally:
            self.may_end.set()
            thread.join(LIMIT)


def query(dsn: str, statement: str, *parameters: object) -> list[tuple[Any, ...]]:
    """Run SQL in the schema and commit it."""
    with psycopg.connect(dsn, autocommit=True, options="-c search_path=inturn") as connection:
        return connection.execute(statement.encode(), parameters or None).fetchall()


@contextmanager
def seeded(dsn: str) -> Iterator[Shop]:
    """Let every state be there. A worker runs until the end of the block."""
    shop = Shop(dsn)
    with shop.app.open():
        fill(shop)
        shop.work(concurrency=2)  # succeeds, fails, halts and waits for retries
        die(shop, dsn)
        fill_after_work(shop)
        with shop.working(concurrency=2, name=hostile("worker"), queues=["default"]):
            wait_until(lambda: shop.app.job_manager.list_jobs(status="doing"), LIMIT)
            yield shop


def fill(shop: Shop) -> None:
    """Defer what ends soon."""
    send = shop.send
    for number in range(12):
        send.configure(lock=f"customer:{number % 3}").defer(to="ann", id=2**53 + 1, token="t")
    send.defer(secret_key="hidden", text=hostile("argument"))
    for order in (1, 2):
        for _ in range(4):
            shop.ship.configure(lock=f"order:{order}").defer(order=order)
            shop.charge.configure(lock=f"card:{order}", on_retry="hold").defer(order=order)
    for _ in range(3):
        shop.fail.configure(lock=LOCK).defer()
    shop.give_back.configure(
        task_kwargs={hostile("argument name"): hostile("argument")},
        headers={hostile("header"): hostile("header value")},
    ).defer()
    parent = send.defer(to="parent")
    send.configure(after=[parent]).defer(to="child")


def die(shop: Shop, dsn: str) -> None:
    """Let a worker vanish with a job in its hands."""
    shop.send.configure(lock="stalled", queue="lost").defer()
    [(worker,)] = query(
        dsn, "SELECT register_worker(%s, 'host', 1, '{lost}', 4)", hostile("lost worker")
    )
    assert query(dsn, "SELECT id FROM claim(%s, '{lost}', 1)", worker)
    query(dsn, "UPDATE workers SET heartbeat_at = heartbeat_at - interval '1 hour' RETURNING 1")


def fill_after_work(shop: Shop) -> None:
    """Defer what stays as it is: waiting, stopped, limited or running."""
    app, send = shop.app, shop.send
    for number in range(3):
        shop.export.configure(lock="export:big").defer(number=number)
    app.lanes.pause("customer:0", reason="provider outage", by="ana")
    app.lanes.pause(hostile("paused"), reason=hostile("reason"), by=name_person(hostile("person")))
    for lock in ("customer:0", "a/b/../c.d", hostile("paused"), "order:ü 😀%2F"):
        send.configure(lock=lock, queue="mail").defer(to="x")
    app.configure_task(TASK, lock=hostile("of an unknown task"), queue="mail").defer(a=1)
    app.configure_task("a.task", lock="strange queue").defer()
    app.limits.set(hostile("limit"), concurrency=1)
    app.limits.set("stripe", concurrency=1, rate="10/min", burst=2)
    for _ in range(2):
        send.configure(limit="stripe", queue="mail", group="tenant:1").defer()
        send.configure(limit=hostile("limit"), queue="mail", group=hostile("group")).defer()
    app.groups.set("tenant:*", weight=2, by=name_person(hostile("person")))
    send.configure(lock="later", schedule_in={"hours": 3}).defer()
    app.queues.pause("mail", reason=hostile("reason"), by=name_person(hostile("person")))
    with app.batch(hostile("batch"), callback=send) as batch:
        send.configure(batch=batch, queue="mail").defer()
    with contextlib.suppress(ZeroDivisionError), app.batch("left open") as batch:
        send.configure(batch=batch, queue="mail").defer()
        raise ZeroDivisionError  # the producer dies, and the batch stays open
