"""Read and check Django's setting INTURN."""

from dataclasses import dataclass, field, fields
from typing import Any

from django.conf import settings

from inturn.errors import ConfigurationError
from inturn.sql import SCHEMA


@dataclass(frozen=True, slots=True)
class Configuration:
    """The keys of the setting, which are in capitals there."""

    database: str = "default"
    schema: str = SCHEMA
    tasks: str = "tasks"
    worker: dict[str, Any] = field(default_factory=dict)


def configuration() -> Configuration:
    """Return the setting. Raise ConfigurationError if a key is unknown."""
    given = getattr(settings, "INTURN", {})
    known = [f.name.upper() for f in fields(Configuration)]
    for name in given:
        if name not in known:
            raise ConfigurationError(
                f"settings.INTURN has {name!r}, which is not one of {', '.join(known)}"
            )
    return Configuration(**{name.lower(): value for name, value in given.items()})
