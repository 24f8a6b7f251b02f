"""Read and check Django's setting INTURN."""

import os
from collections.abc import Sequence
from dataclasses import dataclass, field, fields
from typing import Any

from django.conf import settings

from inturn.errors import ConfigurationError
from inturn.sql import SCHEMA

# Settings of procrastinate with our prefix, and their keys in INTURN.
SEPARATE = {
    "INTURN_AUTODISCOVER_MODULE_NAME": "TASKS",
    "INTURN_IMPORT_PATHS": "IMPORT_PATHS",
    "INTURN_DATABASE_ALIAS": "DATABASE",
    "INTURN_WORKER_DEFAULTS": "WORKER",
    "INTURN_PERIODIC_DEFAULTS": "PERIODIC",
    "INTURN_ON_APP_READY": "ON_APP_READY",
    "INTURN_READONLY_MODELS": "READONLY_MODELS",
}


@dataclass(frozen=True, slots=True)
class Configuration:
    """The keys of the setting, which are in capitals there."""

    database: str = "default"
    schema: str = SCHEMA
    tasks: str | None = "tasks"
    import_paths: Sequence[str] = ()
    worker: dict[str, Any] = field(default_factory=dict)
    periodic: dict[str, Any] = field(default_factory=dict)
    on_app_ready: str | None = None
    readonly_models: bool = True


def configuration() -> Configuration:
    """Return the setting. Raise ConfigurationError if a key is unknown, or it names cells."""
    given = getattr(settings, "INTURN", {})
    # A map of cells names servers, and not aliases, so the test runner would defer into the real
    # cells. And a model reads one schema.
    if "CELLS" in given or os.environ.get("INTURN_CELLS"):
        raise ConfigurationError(
            "CELLS or INTURN_CELLS names cells, but inturn.django serves one database. Remove it, "
            "and declare the tasks of cells on an App(cells=…) of your own; see docs/cells.md"
        )
    known = [f.name.upper() for f in fields(Configuration)]
    for name in given:
        if name not in known:
            raise ConfigurationError(
                f"settings.INTURN has {name!r}, which is not one of {', '.join(known)}"
            )
    for name, key in SEPARATE.items():
        if hasattr(settings, name):
            raise ConfigurationError(
                f"settings.{name} is not read. Write it into one dict: INTURN = {{{key!r}: …}}"
            )
    return Configuration(**{name.lower(): value for name, value in given.items()})
