"""Use inturn in a Django project.

Add `"inturn.django"` to INSTALLED_APPS and run `manage.py migrate`.
Declare tasks in the module `tasks` of your apps:

    from inturn.django import app

    @app.task
    def ship(order: int) -> None: ...

`ship.defer(order=1)` uses Django's own connection.
Inside `transaction.atomic()` the job exists if and only if the block commits.
To run the jobs, start `manage.py queue worker`. For everything else see `manage.py queue --help`.

The setting INTURN is an optional dict with these keys:

- DATABASE: an alias of DATABASES (default "default").
- SCHEMA: the queue's schema in the database (default "inturn").
- TASKS: the name of the modules to import for their tasks (default "tasks"). None imports none.
- IMPORT_PATHS: other modules that a worker imports for their tasks (default []).
- WORKER: options of workers (default {}).
- PERIODIC: `max_delay` and `catch_up` for schedules that do not set them (default {}).
- ON_APP_READY: the path of a function that is called with the app when Django starts.
- READONLY_MODELS: whether the models refuse to write (default True). It is False only in tests.
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
