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

from inturn.lazy import LazyNames

# The app reads Django's settings, but Django imports this package before they are ready.
_names = LazyNames(__name__, __file__)

__all__ = _names.sort()
__dir__ = _names.list_all


def __getattr__(name: str) -> object:
    try:
        return _names.load(name)
    except ModuleNotFoundError as error:
        if error.name not in ("asgiref", "django"):
            raise
        raise ModuleNotFoundError(
            "inturn.django needs Django: pip install 'inturn[django]'", name=error.name
        ) from error
