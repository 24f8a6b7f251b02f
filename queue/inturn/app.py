"""The face: a collection of tasks and the database they are enqueued in."""

from __future__ import annotations

import importlib
from collections.abc import Generator, Iterable, Mapping, Sequence
from contextlib import nullcontext
from datetime import datetime, timedelta
from types import TracebackType
from typing import Any, Self

import anyio

from inturn import arguments, missed
from inturn.connectors import PsycopgConnector
from inturn.errors import ConfigurationError
from inturn.jobs import Jobs
from inturn.lanes import Lanes
from inturn.model import NewJob
from inturn.operations import enqueue
from inturn.operations.upkeep import check_schema
from inturn.tasks import Blueprint, Deferrer, OnFailureName, OnRetryName, Options


class App(Blueprint):
    """Declare tasks on it, open it to defer them, run workers of it.

    `dsn` or `connector` says where the queue lives (default: INTURN_DSN, DATABASE_URL, PG variables); `import_paths`
    names modules that declare tasks, imported before a worker starts; `worker_defaults` are options of its workers;
    `periodic_defaults` say what becomes of missed instants: `max_delay` and `catch_up` of `App.periodic`.
    """

    def __init__(
        self,
        dsn: str | None = None,
        *,
        connector: PsycopgConnector | None = None,
        import_paths: Iterable[str] | None = None,
        worker_defaults: Mapping[str, Any] | None = None,
        periodic_defaults: Mapping[str, Any] | None = None,
    ) -> None:
        super().__init__()
        if dsn is not None and connector is not None:
            raise ConfigurationError("Give the App either a DSN or a connector, not both.")
        self.connector = connector or PsycopgConnector(dsn)
        self.lanes = Lanes(self.connector)
        self.job_manager = Jobs(self.connector)
        self.import_paths = list(import_paths or ())
        self.worker_defaults = dict(worker_defaults or {})
        self.missed = missed.defaults(periodic_defaults or {})

    @classmethod
    def from_path(cls, path: str) -> App:
        """The app at `package.module:attribute` (or `package.module.attribute`)."""
        module_name, _, attribute = path.rpartition(":" if ":" in path else ".")
        if not module_name or not attribute:
            raise ConfigurationError(f"{path!r} is no path of an app. Write package.module:app")
        try:
            module = importlib.import_module(module_name)
        except ModuleNotFoundError as error:
            if error.name is None or not module_name.startswith(error.name):
                raise  # a missing import inside the user's module is the user's to see
            raise ConfigurationError(
                f"There is no module {error.name!r} to import {path!r} from. Run from the folder that holds it, or check the name."
            ) from None
        app = getattr(module, attribute, None)
        if not isinstance(app, App):
            found = "nothing" if app is None else f"a {type(app).__name__}"
            raise ConfigurationError(f"{path!r} names {found}, not an inturn.App.")
        return app

    def configure_task(
        self,
        name: str,
        *,
        allow_unknown: bool = True,
        lock: str | None = None,
        task_kwargs: Mapping[str, Any] | None = None,
        schedule_at: datetime | None = None,
        schedule_in: timedelta | Mapping[str, float] | None = None,
        queue: str | None = None,
        priority: int | None = None,
        on_retry: OnRetryName | None = None,
        on_failure: OnFailureName | None = None,
        connection: object = None,
    ) -> Deferrer[...]:
        """Like `task.configure`, for a task by its name, which may live in another program."""
        changes: dict[str, Any] = {
            "lock": lock,
            "schedule_at": schedule_at,
            "schedule_in": schedule_in,
            "queue": queue,
            "priority": priority,
            "on_retry": on_retry,
            "on_failure": on_failure,
        }
        if name in self.tasks or not allow_unknown:
            return self.find_task(name).configure(task_kwargs=task_kwargs, connection=connection, **changes)
        options = Options().changed(**changes)
        return Deferrer(self, arguments.check_task_name(name), None, options, task_kwargs, connection)

    def enqueue(self, jobs: Sequence[NewJob], connection: object = None) -> list[int]:
        return self.connector.run(enqueue.defer_jobs(jobs), connection)

    async def enqueue_async(self, jobs: Sequence[NewJob], connection: object = None) -> list[int]:
        return await self.connector.run_async(enqueue.defer_jobs(jobs), connection)

    def open(self) -> Self:
        """Open the connections; in `with app.open():` they close at its end."""
        self.connector.open()
        return self

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.close()

    def close(self) -> None:
        self.connector.close()

    def open_async(self) -> Opening:
        """`await app.open_async()` opens; `async with app.open_async():` closes again too."""
        return Opening(self)

    async def close_async(self) -> None:
        await self.connector.close_async()

    def check_connection(self) -> None:
        """Raise what is wrong with the connection or the schema, if anything is."""
        self.connector.run(check_schema(self.connector.schema))

    async def check_connection_async(self) -> None:
        """Raise what is wrong with the connection or the schema, if anything is."""
        await self.connector.run_async(check_schema(self.connector.schema))

    def perform_import_paths(self) -> None:
        for path in self.import_paths:
            importlib.import_module(path)

    def run_worker(self, **options: Any) -> str | None:
        """Run a worker until it is told to stop. Options: see `inturn.worker.Options`.

        Returns None if every job that it had begun has ended, else what made it abort them: a signal's name, or the grace.
        """
        return anyio.run(lambda: self.run_worker_async(**options))

    async def run_worker_async(self, **options: Any) -> str | None:
        """Like `run_worker`, in an event loop that runs already; it also ends when it is cancelled."""
        from inturn.worker import run  # here: an app that only defers need not load the worker

        self.perform_import_paths()
        async with nullcontext() if self.connector.is_open_async else self.open_async():
            return await run(self, self.connector, {**self.worker_defaults, **options})


class Opening:
    """An app about to be opened: awaited, or entered."""

    def __init__(self, app: App) -> None:
        self._app = app

    def __await__(self) -> Generator[Any, None, App]:
        return self.__aenter__().__await__()

    async def __aenter__(self) -> App:
        await self._app.connector.open_async()
        return self._app

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None
    ) -> None:
        await self._app.close_async()
