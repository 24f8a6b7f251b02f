"""The one app of a Django project, made from its settings."""

import copy
from collections.abc import Callable
from functools import wraps
from typing import Any

from asgiref.sync import sync_to_async
from django.db import close_old_connections

from inturn.app import App
from inturn.django.configuration import configuration
from inturn.django.connector import DjangoConnector
from inturn.tasks.task import Task


class DjangoApp(App):
    """Its tasks run as a request does: on connections that Django has checked before, and may close afterwards."""

    def __init__(self) -> None:
        said = configuration()
        connector = DjangoConnector(said.database, schema=said.schema)
        super().__init__(connector=connector, worker_defaults=said.worker)
        self._covered: dict[str, Task[..., Any]] = {}

    def find_task(self, name: str) -> Task[..., Any]:
        if name not in self._covered:
            task = super().find_task(name)
            self._covered[name] = cover = copy.copy(task)
            cover.func = _tidy_async(task.func) if task.is_async else _tidy(task.func)
        return self._covered[name]


def _tidy(function: Callable[..., Any]) -> Callable[..., Any]:
    @wraps(function)
    def run(*args: Any, **kwargs: Any) -> Any:
        close_old_connections()
        try:
            return function(*args, **kwargs)
        finally:
            close_old_connections()

    return run


def _tidy_async(function: Callable[..., Any]) -> Callable[..., Any]:
    @wraps(function)
    async def run(*args: Any, **kwargs: Any) -> Any:
        await sync_to_async(close_old_connections)()  # in the thread that Django's async calls use
        try:
            return await function(*args, **kwargs)
        finally:
            await sync_to_async(close_old_connections)()

    return run


app = DjangoApp()
