"""Django's setting INTURN, checked."""

from dataclasses import dataclass, field, fields
from typing import Any

from django.conf import settings

from inturn.errors import ConfigurationError
from inturn.sql import SCHEMA


@dataclass(frozen=True, slots=True)
class Configuration:
    """What the setting may say, in capitals."""

    database: str = "default"
    schema: str = SCHEMA
    tasks: str = "tasks"
    worker: dict[str, Any] = field(default_factory=dict)


def configuration() -> Configuration:
    said = getattr(settings, "INTURN", {})
    known = [f.name.upper() for f in fields(Configuration)]
    for name in said:
        if name not in known:
            raise ConfigurationError(
                f"settings.INTURN has {name!r}, which is none of {', '.join(known)}"
            )
    return Configuration(**{name.lower(): value for name, value in said.items()})
