"""The face: a collection of tasks and the database they are enqueued in."""

from __future__ import annotations

import importlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from types import TracebackType
from typing import Any, Self, Unpack

import anyio

from inturn import arguments
from inturn.control.builtin_tasks import builtin_tasks
from inturn.control.jobs import Jobs
from inturn.control.lanes import Lanes
from inturn.control.schema import SchemaManager
from inturn.database.connector import Connector
from inturn.database.connectors import PsycopgConnector
from inturn.database.opening import Opening
from inturn.database.pools import AsyncPool, Pool
from inturn.errors import ConfigurationError, LoadFromPathError
from inturn.operations import enqueue
from inturn.operations.upkeep import check_connection
from inturn.schedules import misfires
from inturn.tasks.blueprint import Blueprint
from inturn.tasks.deferred import DeferredJob
from inturn.tasks.options import CheckedOptions, JobOptions, NewJob
from inturn.tasks.task import Deferrer


class App(Blueprint):
    """Declare tasks on it, open it to defer them, run workers of it.

    `dsn` or `connector` says where the queue lives (default: INTURN_DSN, DATABASE_URL, PG variables); `import_paths`
    names modules that declare tasks, imported before a worker starts; `worker_defaults` are options of its workers;
    `periodic_defaults` say what becomes of missed instants: `max_delay` and `catch_up` of `App.periodic`.

        app = App(dsn, worker_defaults={"concurrency": 4})

        @app.task(lock="alphabet")
        def spell(letter: str) -> None:
            print(letter)

        with app.open():
            spell.defer(letter="a")
            app.run_worker(wait=False)  # or, from a terminal: queue -a package.module:app worker

    What a blueprint has an app has too.
    """

    def __init__(
        self,
        dsn: str | None = None,
        *,
        connector: Connector | None = None,
        import_paths: Iterable[str] | None = None,
        worker_defaults: Mapping[str, Any] | None = None,
        periodic_defaults: Mapping[str, Any] | None = None,
    ) -> None:
        super().__init__()
        if dsn is not None and connector is not None:
            raise ConfigurationError("Give the App either a DSN or a connector, not both.")
        self.connector = connector or PsycopgConnector(dsn)
        self.import_paths = list(import_paths or ())
        self.worker_defaults = dict(worker_defaults or {})
        self.misfires = misfires.make_default_policy(periodic_defaults or {})
        self.add_tasks_from(builtin_tasks(), namespace="builtin")

    @property
    def connector(self) -> Connector:
        """Where the queue lives. Set it to go elsewhere for good; for a while there is `replace_connector`."""
        return self._connector

    @connector.setter
    def connector(self, connector: Connector) -> None:
        self._connector = connector
        self.lanes = Lanes(connector)
        self.job_manager = Jobs(connector)
        self.schema_manager = SchemaManager(connector)

    @contextmanager
    def replace_connector(self, connector: Connector) -> Iterator[Self]:
        """Within it everything goes through another connector: to another database in a test, say.

        with app.replace_connector(PsycopgConnector(test_dsn)), app.open():
            write.defer(letter="a")
        """
        before, self.connector = self.connector, connector
        try:
            yield self
        finally:
            self.connector = before

    @classmethod
    def from_path(cls, dotted_path: str) -> App:
        """The app at `package.module:attribute` (or `package.module.attribute`).

        app = App.from_path("shop.tasks:app")
        """
        module_name, _, attribute = dotted_path.rpartition(":" if ":" in dotted_path else ".")
        if not module_name or not attribute:
            raise LoadFromPathError(
                f"{dotted_path!r} is no path of an app. Write package.module:app"
            )
        try:
            module = importlib.import_module(module_name)
        except ModuleNotFoundError as error:
            if error.name is None or not module_name.startswith(error.name):
                raise  # a missing import inside the user's module is the user's to see
            raise LoadFromPathError(
                f"There is no module {error.name!r} to import {dotted_path!r} from. "
                "Run from the folder that holds it, or check the name."
            ) from None
        app = getattr(module, attribute, None)
        if not isinstance(app, App):
            found = "nothing" if app is None else f"a {type(app).__name__}"
            raise LoadFromPathError(f"{dotted_path!r} names {found}, not an inturn.App.")
        return app

    def configure_task(
        self,
        name: str,
        *,
        allow_unknown: bool = True,
        task_kwargs: Mapping[str, Any] | None = None,
        **options: Unpack[JobOptions],
    ) -> Deferrer[...]:
        """Like `task.configure`, for a task by its name, which may live in another program.

            app.configure_task("billing.charge", lock="customer:7").defer(order=1)

        With `allow_unknown=False` a task that is not known here raises TaskNotFound.
        """
        if name in self.tasks or not allow_unknown:
            return self.find_task(name).configure(task_kwargs=task_kwargs, **options)
        connection = options.pop("connection", None)
        task_options = CheckedOptions().change(options)
        return Deferrer(
            self, arguments.check_task_name(name), None, task_options, task_kwargs, connection
        )

    def enqueue(self, jobs: Sequence[NewJob], connection: object = None) -> list[DeferredJob]:
        """What `defer` does with the jobs that it has made; `job_manager.batch_defer_jobs` is the name for users."""
        return self._connector.run(enqueue.defer_jobs(jobs, self.job_manager), connection)

    async def enqueue_async(
        self, jobs: Sequence[NewJob], connection: object = None
    ) -> list[DeferredJob]:
        """Like `enqueue`, in an event loop."""
        return await self._connector.run_async(
            enqueue.defer_jobs(jobs, self.job_manager), connection
        )

    def open(self, pool: Pool | None = None) -> Self:
        """Open the connections; in `with app.open():` they close at its end. A `pool` of yours is used and left open."""
        self.connector.open(pool)
        return self

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        at: TracebackType | None,
    ) -> None:
        self.close()

    def close(self) -> None:
        """Close what `open` has opened."""
        self.connector.close()

    def open_async(self, pool: AsyncPool | None = None) -> Opening[Self]:
        """`await app.open_async()` opens; `async with app.open_async():` closes again too. A `pool` of yours is left open."""
        return Opening(self, self.connector, pool)

    async def close_async(self) -> None:
        """Close what `open_async` has opened, and the sync connections that were opened meanwhile."""
        await self.connector.close_async()

    def check_connection(self) -> bool:
        """Whether the queue can be used: False before the first `queue migrate`; raises what else is wrong."""
        return self.connector.run(check_connection(self.connector.schema))

    async def check_connection_async(self) -> bool:
        """Whether the queue can be used: False before the first `queue migrate`; raises what else is wrong."""
        return await self.connector.run_async(check_connection(self.connector.schema))

    def perform_import_paths(self) -> None:
        """Import the modules of `import_paths`, whose tasks are known then. A worker begins with it."""
        for path in self.import_paths:
            importlib.import_module(path)

    def run_worker(self, **options: Any) -> str | None:
        """Run a worker until it is told to stop. Options: see `inturn.worker.Options`.

            app.run_worker(queues=["default", "mail"], concurrency=4, wait=False)

        Returns None if every job that it had begun has ended, else what made it abort them: a signal's name, or the grace.
        """
        return anyio.run(lambda: self.run_worker_async(**options))

    async def run_worker_async(self, **options: Any) -> str | None:
        """Like `run_worker`, in an event loop that runs already; it also ends when it is cancelled."""
        from inturn.worker import run  # here: an app that only defers need not load the worker

        self.perform_import_paths()
        return await run(self, self.connector, {**self.worker_defaults, **options})
