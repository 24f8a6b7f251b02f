"""A worker's log on standard error: one line for each event.

The library itself configures no handlers: logging is up to your program.

Names of tasks and texts of errors come from anyone who can defer a job.
They must not act on a terminal, or look like a line of the log.
This formatter escapes everything that is logged, so that no other code has to.
"""

import json
import logging
import re
import time
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any, TypeVar

import click

from inturn.cli.formatting import iso, visible

F = TypeVar("F", bound=Callable[..., Any])
LEVELS = ("debug", "info", "warning", "error", "critical")
STANDARD = {*vars(logging.makeLogRecord({})), "message", "asctime", "taskName"}
INDENT = "    "
PLACEHOLDER = re.compile(r"%(?!%)")


class LineFormatter(logging.Formatter):
    """Writes each message on one line.

    What follows a line break in the template, such as a traceback, is indented below it.
    """

    def __init__(self) -> None:
        super().__init__("%(asctime)s %(levelname)-7s %(message)s", "%Y-%m-%dT%H:%M:%SZ")
        self.converter = time.gmtime

    def formatMessage(self, record: logging.LogRecord) -> str:
        head, more = _split(record)
        record.message = visible(head)
        return super().formatMessage(record) + (f"\n{indent(more)}" if more else "")

    def formatException(self, ei: Any) -> str:
        return indent(super().formatException(ei))

    def formatStack(self, stack_info: str) -> str:
        return indent(super().formatStack(stack_info))


def _split(record: logging.LogRecord) -> tuple[str, str]:
    """Return the message up to the first line break of its template, and the rest."""
    template = str(record.msg)
    head, _, more = template.partition("\n")
    if not more:
        return record.getMessage(), ""
    if not isinstance(record.args, tuple) or not record.args:
        return (head, more) if not record.args else (record.getMessage(), "")
    count = len(PLACEHOLDER.findall(head.replace("%%", "")))
    return head % record.args[:count], more % record.args[count:]


def indent(text: str) -> str:
    return "\n".join(INDENT + visible(line) for line in text.strip("\n").split("\n"))


class JsonFormatter(logging.Formatter):
    """Writes each record as one JSON object, with what `extra` has added to it."""

    def format(self, record: logging.LogRecord) -> str:
        at = datetime.fromtimestamp(record.created, UTC)
        line = {
            "at": iso(at),
            "level": record.levelname,
            "logger": record.name,
            "message": record.getMessage(),
            **{name: value for name, value in vars(record).items() if name not in STANDARD},
        }
        if record.exc_info:
            line["exception"] = self.formatException(record.exc_info)
        return json.dumps(line, default=str)


def log_options(command: F) -> F:
    """Add --log-level and --log-format, which the command passes on to `configure`."""
    level = click.option(
        "--log-level",
        envvar="INTURN_LOG_LEVEL",
        type=click.Choice(LEVELS, case_sensitive=False),
        help="Log messages of this level and above.  [default: info]",
    )
    form = click.option(
        "--log-format",
        envvar="INTURN_LOG_FORMAT",
        type=click.Choice(["text", "json"]),
        default="text",
        show_default=True,
        help="How to write the log: as lines for people, or as one JSON object a line.",
    )
    return level(form(command))


def configure(*, verbose: bool, level: str | None = None, form: str = "text") -> None:
    """Log to standard error, from this level on: by default INFO, or DEBUG if `verbose`."""
    handler = logging.StreamHandler()
    handler.setFormatter(JsonFormatter() if form == "json" else LineFormatter())
    logging.basicConfig(level=level.upper() if level else logging.INFO, handlers=[handler])
    if verbose or level == "debug":
        logging.getLogger("inturn").setLevel(logging.DEBUG)
    for name in ("alembic", "watchfiles"):  # they announce every step
        logging.getLogger(name).setLevel(logging.WARNING)
    # The pool logs every failed attempt to connect, but the worker reports the outage itself.
    logging.getLogger("psycopg.pool").setLevel(logging.ERROR)


def enable() -> None:
    """Enable inturn's loggers, after your module was imported.

    `dictConfig` disables the loggers that exist before it, unless told otherwise. Then the worker
    would be silent, even about failed jobs.
    """
    for name, logger in logging.root.manager.loggerDict.items():
        if name.partition(".")[0] == "inturn" and isinstance(logger, logging.Logger):
            logger.disabled = False
