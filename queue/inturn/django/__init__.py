"""Use inturn in a Django project; see docs/integrations.md.

`app` is the project's app. A test that declares tasks needs its own:

    from inturn.django import DjangoApp, app

    own = DjangoApp(connector=app.connector)

    @own.task
    def thank(order: int) -> None: ...

The setting INTURN is an optional dict:

- DATABASE: an alias of DATABASES (default "default").
- SCHEMA: the queue's schema (default "inturn").
- TASKS: which modules to import for their tasks (default "tasks"). None imports none.
- IMPORT_PATHS: other modules that a worker imports.
- WORKER: options of workers.
- PERIODIC: `max_delay` and `catch_up` for schedules that do not set them.
- ON_APP_READY: the path of a function that gets the app when Django starts.
- READONLY_MODELS: False lets models write, in tests.
"""

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from inturn.django.connector import connector_params as connector_params
    from inturn.django.current import DjangoApp as DjangoApp
    from inturn.django.current import app as app

_MODULES = {"DjangoApp": "current", "app": "current", "connector_params": "connector"}

__all__ = ["DjangoApp", "app", "connector_params"]


def __getattr__(name: str) -> object:
    # The app reads Django's settings, but Django imports this package before they are ready.
    if name not in _MODULES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    try:
        return getattr(import_module(f"inturn.django.{_MODULES[name]}"), name)
    except ModuleNotFoundError as error:
        if error.name not in ("asgiref", "django"):
            raise
        raise ModuleNotFoundError(
            "inturn.django needs Django: pip install 'inturn[django]'", name=error.name
        ) from error
