"""The app of a Django project, made from its settings."""

import copy
from collections.abc import Callable, Iterable, Mapping
from functools import wraps
from typing import TYPE_CHECKING, Any, Unpack

from asgiref.sync import sync_to_async
from django.apps import apps
from django.conf import settings
from django.db import close_old_connections, reset_queries

from inturn.app import App
from inturn.database.connector import Connector
from inturn.django.configuration import configuration
from inturn.django.connector import DjangoConnector
from inturn.errors import ConfigurationError
from inturn.tasks.task import Task

if TYPE_CHECKING:
    from inturn.worker.options import WorkerOptions


class DjangoApp(App):
    """An App whose tasks run as requests do: Django checks its connections before and after.

    Without a connector, it has the one that the setting INTURN names. Such an app of your own is
    useful in tests, because the project's app keeps each task that you declare on it.

        app = DjangoApp(connector=inturn.django.app.connector)
    """

    program = "manage.py queue"

    def __init__(
        self,
        *,
        connector: Connector | None = None,
        import_paths: Iterable[str] | None = None,
        worker_defaults: Mapping[str, Any] | None = None,
        periodic_defaults: Mapping[str, Any] | None = None,
    ) -> None:
        if connector is None:
            setting = configuration()
            connector = DjangoConnector(setting.database, schema=setting.schema)
        super().__init__(
            connector=connector,
            import_paths=import_paths,
            worker_defaults=worker_defaults,
            periodic_defaults=periodic_defaults,
        )
        self._wrapped: dict[str, Task[..., Any]] = {}

    async def run_worker_async(self, **options: Unpack["WorkerOptions"]) -> str | None:
        """Like that of any app, but only once Django has imported the `tasks` modules.

        Before, a worker would know no task, and put back each job that it claims.
        """
        if not apps.ready:
            raise ConfigurationError(
                "Django is not set up. Run: manage.py queue. In a script, call django.setup()."
            )
        return await super().run_worker_async(**options)

    def _known_tasks(self) -> Iterable[str] | None:
        return None if _has_task_backend() else self.tasks

    def find_task(self, name: str) -> Task[..., Any]:
        if name not in self._wrapped:
            if name not in self.tasks and _has_task_backend():
                from inturn.django.running_tasks import import_task

                import_task(name)
            task = super().find_task(name)
            self._wrapped[name] = wrapper = copy.copy(task)
            wrapper.func = _close_old_async(task.func) if task.is_async else _close_old(task.func)
        return self._wrapped[name]


def _has_task_backend() -> bool:
    """Return True if the project runs the tasks of Django's own framework with our backend."""
    backends = getattr(settings, "TASKS", None) or {}
    return any(
        each.get("BACKEND") == "inturn.django.backend.InturnBackend" for each in backends.values()
    )


def _close_old(function: Callable[..., Any]) -> Callable[..., Any]:
    @wraps(function)
    def run(*args: Any, **kwargs: Any) -> Any:
        close_old_connections()
        try:
            return function(*args, **kwargs)
        finally:
            _clean_up()

    return run


def _close_old_async(function: Callable[..., Any]) -> Callable[..., Any]:
    @wraps(function)
    async def run(*args: Any, **kwargs: Any) -> Any:
        await sync_to_async(close_old_connections)()  # in the thread of Django's async calls
        try:
            return await function(*args, **kwargs)
        finally:
            await sync_to_async(_clean_up)()

    return run


def _clean_up() -> None:
    close_old_connections()
    reset_queries()  # with DEBUG, Django keeps each statement in memory


def _make_app() -> DjangoApp:
    setting = configuration()
    return DjangoApp(
        import_paths=setting.import_paths,
        worker_defaults=setting.worker,
        periodic_defaults=setting.periodic,
    )


app = _make_app()
