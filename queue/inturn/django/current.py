"""The app of a Django project, made from its settings."""

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
    """An App whose tasks run as requests do: Django checks its connections before and after."""

    def __init__(self) -> None:
        settings = configuration()
        connector = DjangoConnector(settings.database, schema=settings.schema)
        super().__init__(connector=connector, worker_defaults=settings.worker)
        self._wrapped: dict[str, Task[..., Any]] = {}

    def find_task(self, name: str) -> Task[..., Any]:
        if name not in self._wrapped:
            task = super().find_task(name)
            self._wrapped[name] = wrapper = copy.copy(task)
            wrapper.func = _close_old_async(task.func) if task.is_async else _close_old(task.func)
        return self._wrapped[name]


def _close_old(function: Callable[..., Any]) -> Callable[..., Any]:
    @wraps(function)
    def run(*args: Any, **kwargs: Any) -> Any:
        close_old_connections()
        try:
            return function(*args, **kwargs)
        finally:
            close_old_connections()

    return run


def _close_old_async(function: Callable[..., Any]) -> Callable[..., Any]:
    @wraps(function)
    async def run(*args: Any, **kwargs: Any) -> Any:
        await sync_to_async(close_old_connections)()  # in the thread of Django's async calls
        try:
            return await function(*args, **kwargs)
        finally:
            await sync_to_async(close_old_connections)()

    return run


app = DjangoApp()
