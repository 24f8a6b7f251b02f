"""Headers: values that travel with a job beside its arguments, for middleware, not the task."""

import json
from collections.abc import Mapping
from typing import Any

from inturn.arguments import encode_value, to_json
from inturn.errors import BadArgument, kind_of

MAX_BYTES = 4096
TRACE = "otel"  # the header in which `inturn.tracing` keeps its context
RESERVED = (TRACE,)  # what inturn itself stores here. The engine never reads headers.


def check_headers(headers: object) -> str | None:
    """Return headers as JSON text, or None if there are none, or raise BadArgument."""
    if not isinstance(headers, Mapping):
        raise BadArgument("headers", f"is {kind_of(headers)}. Pass a mapping of names to values")
    for name in RESERVED:
        if name in headers:
            raise BadArgument("headers", f"{name!r} is reserved. Use another name")
    return encode_value("headers", dict(headers), MAX_BYTES) if headers else None


def add_header(headers: str | None, name: str, value: object) -> str:
    """Return headers, as JSON text, with one more."""
    return to_json({**json.loads(headers or "{}"), name: value})


def select_own(headers: Mapping[str, Any] | None) -> dict[str, Any]:
    """Return the headers without the reserved ones."""
    return {name: value for name, value in (headers or {}).items() if name not in RESERVED}
