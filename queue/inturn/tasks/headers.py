"""Headers: values that travel with a job beside its arguments, for middleware, not the task."""

from collections.abc import Mapping
from typing import Any

from inturn.arguments import encode_value
from inturn.errors import BadArgument, kind_of

MAX_BYTES = 4096
TRACE = "otel"  # the header in which `inturn.tracing` keeps its context


def check_headers(headers: object) -> str | None:
    """Return headers as JSON text, or None if there are none, or raise BadArgument."""
    if not isinstance(headers, Mapping):
        raise BadArgument("headers", f"is {kind_of(headers)}. Pass a mapping of names to values")
    if TRACE in headers:
        raise BadArgument("headers", f"{TRACE!r} is reserved for tracing. Use another name")
    return encode_value("headers", dict(headers), MAX_BYTES) if headers else None


def select_own(headers: Mapping[str, Any] | None) -> dict[str, Any]:
    """Return the headers without what tracing keeps there."""
    return {name: value for name, value in (headers or {}).items() if name != TRACE}
