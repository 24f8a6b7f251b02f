"""Checks a worker from outside, as probes that run a command do."""

import json
from http.client import HTTPConnection, HTTPException
from typing import NamedTuple

PATIENCE = 5.0  # seconds for a response


class Reply(NamedTuple):
    """A worker's response, or why there was none."""

    is_ok: bool
    text: str


def ask(host: str, port: int, path: str) -> Reply:
    connection = HTTPConnection(host, port, timeout=PATIENCE)
    try:
        connection.request("GET", path)
        response = connection.getresponse()
        return Reply(response.status == 200, _shorten(response.read()))
    except (OSError, HTTPException, UnicodeError) as error:  # of the host's name
        return Reply(False, f"no answer: {str(error) or type(error).__name__}")
    finally:
        connection.close()


def _shorten(body: bytes) -> str:
    """Return the checks in one line."""
    try:
        checks = json.loads(body)["checks"]
    except (ValueError, KeyError, TypeError):
        return "not a worker's health endpoint"
    return ", ".join(f"{name}: {result}" for name, result in checks.items())
