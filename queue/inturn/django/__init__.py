"""inturn in a Django project.

Add `"inturn.django"` to INSTALLED_APPS and run `manage.py migrate`. Declare tasks in the module `tasks` of your apps:

    from inturn.django import app

    @app.task
    def ship(order: int) -> None: ...

`ship.defer(order=1)` goes over Django's own connection: inside of `transaction.atomic()` the job exists if and only if
the block commits. `manage.py queue worker` runs the jobs, `manage.py queue --help` has the rest.

Settings, all optional, as a dict INTURN: DATABASE, an alias of DATABASES ("default"); SCHEMA ("inturn"); TASKS, the name of the
modules that are imported for their tasks ("tasks"); WORKER, options of workers ({}).
"""

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from inturn.django.current import app as app

__all__ = ["app"]


def __getattr__(name: str) -> object:
    # The app reads Django's settings, which are not there yet when Django imports this package.
    if name != "app":
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return import_module("inturn.django.current").app
