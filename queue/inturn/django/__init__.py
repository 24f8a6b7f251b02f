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
- TASKS: the name of the modules to import for their tasks (default "tasks").
- WORKER: options of workers (default {}).
"""

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from inturn.django.current import app as app

__all__ = ["app"]


def __getattr__(name: str) -> object:
    # The app reads Django's settings, but Django imports this package before they are ready.
    if name != "app":
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return import_module("inturn.django.current").app
