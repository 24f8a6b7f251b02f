"""Checks a worker from outside, as probes that run a command do."""

import json
from contextlib import closing
from http.client import HTTPConnection, HTTPException
from typing import NamedTuple

PATIENCE = 5.0  # seconds for a response


class Reply(NamedTuple):
    """A worker's response, or why there was none."""

    is_ok: bool
    text: str


def ask(host: str, port: int, path: str) -> Reply:
    try:
        with closing(HTTPConnection(host, port, timeout=PATIENCE)) as connection:
            connection.request("GET", path)
            response = connection.getresponse()
            return _read(response.status == 200, response.read())
    except (OSError, HTTPException, UnicodeError) as error:  # the last about a host's name
        return Reply(False, f"no answer: {str(error) or type(error).__name__}")


def _read(is_ok: bool, body: bytes) -> Reply:
    """Return the checks in one line."""
    try:
        checks = json.loads(body)["checks"].items()
    except (ValueError, KeyError, TypeError, AttributeError):
        return Reply(False, "not a worker's health endpoint")
    return Reply(is_ok, ", ".join(f"{name}: {result}" for name, result in checks))
