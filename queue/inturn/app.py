"""The App: your tasks, and the database that they are deferred to."""

from __future__ import annotations

import asyncio
import importlib
import os
from collections.abc import Generator, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from copy import copy
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any, Generic, Self, TypeVar, Unpack

from inturn import arguments
from inturn.control.batches import BatchBlock, Batches
from inturn.control.builtin_tasks import builtin_tasks
from inturn.control.groups import Groups
from inturn.control.jobs import Jobs
from inturn.control.lanes import Lanes
from inturn.control.limits import Limits
from inturn.control.queues import Queues
from inturn.control.schema import SchemaManager
from inturn.control.verify import Verifier
from inturn.database.connector import Connector
from inturn.database.connectors import PsycopgConnector
from inturn.database.pools import AsyncPool, Pool
from inturn.errors import ConfigurationError, LoadFromPathError, kind_of
from inturn.operations.reading.verify import Verification
from inturn.schedules import misfires
from inturn.tasks.blueprint import Blueprint
from inturn.tasks.deferred import DeferredJob
from inturn.tasks.lanes import check_cell
from inturn.tasks.options import CheckedOptions, JobOptions, NewJob, R, show_options
from inturn.tasks.task import Deferrer, Schedule
from inturn.tasks.tracer import Tracer
from inturn.values import JsonDumps

if TYPE_CHECKING:
    from inturn.cells.map import CellsOption
    from inturn.worker.options import WorkerOptions

CELLS = "INTURN_CELLS"  # names the file of the map of cells
AnyApp = TypeVar("AnyApp", bound="App")


class App(Blueprint):
    """Your tasks and their database. Declare tasks on it, open it to defer jobs, and run workers.

        app = App(dsn, worker_defaults={"concurrency": 4})

        @app.task(lock="alphabet")
        def spell(letter: str) -> None:
            print(letter)

        with app.open():
            spell.defer(letter="a")
            app.run_worker(wait=False)  # or, from a terminal: queue -a package.module:app worker

    dsn, connector: the queue's database. Give one of them, or set INTURN_DSN, DATABASE_URL or
    libpq's PG variables.
    cells: instead of them, many databases; see docs/cells.md. A list of DSNs or connectors, or the
    path of a TOML file, which you can also set as INTURN_CELLS.
    import_paths: modules that declare tasks. A worker imports them before it starts.
    worker_defaults: default options for the app's workers.
    periodic_defaults: `max_delay` and `catch_up` for schedules that do not set them; see
    `periodic`.
    tracing: creates spans, for example `inturn.tracing.Tracing()`; see docs/tracing.md.

    An App supports everything that a Blueprint does.
    """

    json_dumps: JsonDumps | None = None  # the connector's
    program = "queue"  # how advice names the command line

    def __init__(
        self,
        dsn: str | None = None,
        *,
        connector: Connector | None = None,
        cells: CellsOption | None = None,
        import_paths: Iterable[str] | None = None,
        worker_defaults: Mapping[str, Any] | None = None,
        periodic_defaults: Mapping[str, Any] | None = None,
        tracing: Tracer | None = None,
    ) -> None:
        super().__init__()
        if [dsn, connector, cells].count(None) < 2:
            raise ConfigurationError(
                "The App was given two of a DSN, a connector and cells. Give only one of them."
            )
        if not isinstance(dsn, str | None):
            raise ConfigurationError(
                f"The App's first argument is a DSN, not {dsn!r}. Pass a connector by its name: "
                "App(connector=...)."
            )
        self._tracing = tracing
        self.connector = connector or _make_connector(dsn, cells)
        self.import_paths = list(import_paths or ())
        self.worker_defaults = dict(worker_defaults or {})
        self.misfires = misfires.make_default_policy(periodic_defaults or {})
        self.add_tasks_from(builtin_tasks(), namespace="builtin")

    @property
    def connector(self) -> Connector:
        """The connection to the queue's database. Set it to switch to another database.

        To switch temporarily, see `replace_connector`.
        """
        return self._connector

    @connector.setter
    def connector(self, connector: Connector) -> None:
        self._connector = connector
        self.json_dumps = connector.json_dumps
        self.lanes = connector.serve(Lanes)
        self.queues = connector.serve(Queues)
        self.limits = connector.serve(Limits)
        self.groups = connector.serve(Groups)
        self.batches = connector.serve(Batches)
        self.job_manager = connector.serve(Jobs, self._tracing)
        self.schema_manager = connector.serve(SchemaManager)
        self._verifier = connector.serve(Verifier)

    @property
    def tracing(self) -> Tracer | None:
        """Creates spans, or None. Set it before you defer jobs or start a worker."""
        return self._tracing

    @tracing.setter
    def tracing(self, tracing: Tracer | None) -> None:
        self._tracing = tracing
        self.job_manager = self._connector.serve(Jobs, tracing)

    @contextmanager
    def replace_connector(self, connector: Connector) -> Iterator[Self]:
        """Use another connector inside the `with` block, for example for a test database.

        with app.replace_connector(PsycopgConnector(test_dsn)), app.open():
            write.defer(letter="a")
        """
        before, self.connector = self.connector, connector
        try:
            yield self
        finally:
            self.connector = before

    def cell(self, number: int | None = None, *, key: str | None = None) -> Self:
        """Return this app on one cell: the one with this number, or that of a cell key.

            app.cell(key="tenant:7").limits.set("stripe", concurrency=5)
            app.cell(0).run_worker(wait=False)

        A call that names a lane, a job or a batch goes to its own cell nevertheless. Without cells,
        it is the app itself. See docs/cells.md.
        """
        view = copy(self)
        view.connector = self.connector.find_home(check_cell(number, key))
        return view

    def schedules(self) -> Iterator[Schedule]:
        """Return the schedules of all tasks, in order of declaration; in a cell, those of it.

        for schedule in app.schedules():
            print(schedule.task.name, schedule.periodic_id)
        """
        return filter(self.connector.has_schedule, super().schedules())

    @classmethod
    def from_path(cls, dotted_path: str) -> App:
        """Import the app at `package.module:attribute` or `package.module.attribute`.

        app = App.from_path("shop.tasks:app")
        """
        module_name, _, attribute = dotted_path.rpartition(":" if ":" in dotted_path else ".")
        if not module_name or not attribute or module_name.startswith("."):
            raise LoadFromPathError(
                f"{dotted_path!r} is not the path of an app. Write package.module:app."
            )
        try:
            module = importlib.import_module(module_name)
        except ModuleNotFoundError as error:
            if error.name is None or not f"{module_name}.".startswith(f"{error.name}."):
                raise  # your module exists, but one of its own imports failed
            raise LoadFromPathError(
                f"The module {error.name!r} of {dotted_path!r} was not found. Run the command in "
                "the folder that contains it, or check the name."
            ) from None
        app = getattr(module, attribute, None)
        if app is None:
            raise LoadFromPathError(
                f"{dotted_path!r} does not exist: the module has no {attribute!r}."
            )
        if not isinstance(app, App):
            raise LoadFromPathError(
                f"{dotted_path!r} is {kind_of(app)}, not an inturn.App. Give the path of the App "
                "in your module."
            )
        return app

    @show_options(JobOptions, {})
    def configure_task(
        self,
        name: str,
        *,
        allow_unknown: bool = True,
        task_kwargs: Mapping[str, Any] | None = None,
        **options: Unpack[JobOptions],
    ) -> Deferrer[..., Any]:
        """Like `task.configure`, but by the task's name. The task may belong to another program.

            app.configure_task("billing.charge", lock="customer:7").defer(order=1)

        If the app has the task, for example in a module of `import_paths`, the task's own options
        apply. With `allow_unknown=False`, raise TaskNotFound if it does not.
        """
        if name not in self.tasks and self.import_paths:
            self.perform_import_paths()
        if name in self.tasks or not allow_unknown:
            deferrer = self.find_task(name).configure(task_kwargs=task_kwargs, **options)
            deferrer._owner = self  # it may be one cell of the app that the task was declared on
            return deferrer
        connection = options.pop("connection", None)
        task_options = CheckedOptions().change(options)
        return Deferrer(
            self, arguments.check_task_name(name), None, task_options, task_kwargs, connection
        )

    def batch(
        self,
        name: str,
        *,
        callback: Deferrer[..., Any] | None = None,
        connection: object = None,
    ) -> BatchBlock:
        """Count jobs together, and run a job when all of them have ended.

            with app.batch("import", callback=report.configure(task_kwargs={"day": 1})) as batch:
                for letter in "abc":
                    write.configure(batch=batch).defer(letter=letter)

        In an event loop, use `async with`. `batch` is a number, and other processes can add jobs to
        it. The end of the block closes it. If the block raises, it stays open; see `app.batches`.

        callback: the task to run once, when the batch is closed and all its jobs have ended. It
        finds their counts in `context.batch`.
        connection: your own connection, in whose transaction the batch is opened and closed.
        """
        return BatchBlock(self.batches, name, callback, connection)

    def enqueue(self, jobs: Sequence[NewJob[R]], connection: object = None) -> list[DeferredJob[R]]:
        """Enqueue jobs made with `make_new_job`; the same as `job_manager.batch_defer_jobs`."""
        return self.job_manager.batch_defer_jobs(jobs, connection)

    async def enqueue_async(
        self, jobs: Sequence[NewJob[R]], connection: object = None
    ) -> list[DeferredJob[R]]:
        """Like `enqueue`, in an event loop."""
        return await self.job_manager.batch_defer_jobs_async(jobs, connection)

    def open(self, pool: Pool | None = None) -> Self:
        """Open the app's connections. `with app.open():` closes them at the end of the block.

        If you pass your own `pool`, the app uses it and leaves it open.
        """
        self.connector.open(pool)
        return self

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Close the connections that `open` opened."""
        self.connector.close()

    def open_async(self, pool: AsyncPool | None = None) -> Opening[Self]:
        """Open the app's connections in an event loop: `await` it, or use it with `async with`.

        `async with app.open_async():` closes them at the end of the block. If you pass your own
        `pool`, the app uses it and leaves it open.
        """
        return Opening(self, pool)

    async def close_async(self) -> None:
        """Close the connections of `open_async`, and sync ones opened since."""
        await self.connector.close_async()

    def verify(
        self, since: timedelta | datetime | None = None, *, lock: str | None = None
    ) -> Verification:
        """Judge from the history whether the queue has kept its promises; see docs/verify.md.

            found = app.verify(timedelta(hours=24))
            assert found.is_kept, found.broken

        since: judge jobs that ended in this time or since this moment, and living ones. By default,
        the whole history.
        lock: judge only this lane.
        """
        return self._verifier.verify(since, lock=lock)

    async def verify_async(
        self, since: timedelta | datetime | None = None, *, lock: str | None = None
    ) -> Verification:
        """Like `verify`, in an event loop."""
        return await self._verifier.verify_async(since, lock=lock)

    def check_connection(self) -> bool:
        """Return True if the queue is ready for use, or False before the first `queue migrate`.

        Raise an error if the database cannot be reached or has another version's schema.
        """
        return self.job_manager.check_connection()

    async def check_connection_async(self) -> bool:
        """Like `check_connection`, in an event loop."""
        return await self.job_manager.check_connection_async()

    def perform_import_paths(self) -> None:
        """Import the modules in `import_paths`, which declare tasks. A worker does this first."""
        for path in self.import_paths:
            importlib.import_module(path)

    def run_worker(self, **options: Unpack[WorkerOptions]) -> str | None:
        """Run a worker until it is stopped. For its options, see `inturn.worker.Options`.

            app.run_worker(queues=["default", "mail"], concurrency=4, wait=False)

        Return None if all its jobs have ended. Otherwise return why it aborted the rest, such as
        the name of a signal.
        """
        return asyncio.run(self.run_worker_async(**options))

    async def run_worker_async(self, **options: Unpack[WorkerOptions]) -> str | None:
        """Like `run_worker`, in an event loop.

        Cancelling it stops the worker, whose jobs then have `shutdown_graceful_timeout` to finish.
        Cancelling it again aborts them.
        """
        from inturn.worker import run  # here, so that an app that only defers does not load it

        self.perform_import_paths()
        return await run(self, self.connector, {**self.worker_defaults, **options})


def _make_connector(dsn: str | None, cells: CellsOption | None) -> Connector:
    if cells is None:
        cells = None if dsn else os.environ.get(CELLS) or None
    if cells is None:
        return PsycopgConnector(dsn)
    from inturn.cells.connector import Cells  # here, so that an app without cells does not load it

    return Cells(cells)


class Opening(Generic[AnyApp]):
    """Opens an app when it is awaited or entered with `async with`."""

    def __init__(self, app: AnyApp, pool: AsyncPool | None) -> None:
        self._app = app
        self._connector = app.connector  # the app may have another one when it closes
        self._pool = pool

    def __await__(self) -> Generator[Any, None, AnyApp]:
        return self.__aenter__().__await__()

    async def __aenter__(self) -> AnyApp:
        await self._connector.open_async(self._pool)
        return self._app

    async def __aexit__(self, *_: object) -> None:
        await self._connector.close_async()
