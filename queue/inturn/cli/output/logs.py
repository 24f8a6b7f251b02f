"""A worker's log on standard error: one line per event.

The library itself configures no handlers: your program decides about logging.

Anyone who can defer a job controls task names and error texts.
They must not control a terminal or forge a log line.
This formatter escapes everything logged, so no other code has to.
"""

import json
import logging
import re
import time
from datetime import UTC, datetime
from typing import Any

import click

from inturn.cli.settings import combine
from inturn.formatting import iso, visible
from inturn.logs import JobFilter

LEVELS = ("debug", "info", "warning", "error", "critical")
STANDARD = {*vars(logging.makeLogRecord({})), "message", "asctime", "taskName"}
INDENT = "    "
EVENT = re.compile(r"([a-z]+\.[a-z_]+): ")
PLAIN = re.compile(r"[!#-<>-\[\]-~]+")  # no space, quote, backslash or =
PLACEHOLDER = re.compile(r"%(?!%)")


class LineFormatter(logging.Formatter):
    """Writes each message on one line.

    Text after a line break in the template, such as a traceback, is indented below.
    """

    def __init__(self) -> None:
        super().__init__("%(asctime)s %(levelname)-7s %(message)s", "%Y-%m-%dT%H:%M:%SZ")
        self.converter = time.gmtime

    def formatMessage(self, record: logging.LogRecord) -> str:
        head, more = _split(record)
        record.message = visible(head + _name_job(record))
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


def _name_job(record: logging.LogRecord) -> str:
    """Return the job that logged this, except for inturn's own lines, which name it."""
    fields = vars(record)
    if is_ours(record) or "job_id" not in fields:
        return ""
    lock = f", lock {fields['lock']}" if fields.get("lock") is not None else ""
    return f" [job {fields['job_id']} {fields.get('task')}{lock}]"


def indent(text: str) -> str:
    return "\n".join(INDENT + visible(line) for line in text.strip("\n").split("\n"))


class JsonFormatter(logging.Formatter):
    """Writes each record as one JSON object, including its `extra` fields."""

    def format(self, record: logging.LogRecord) -> str:
        return json.dumps(_collect(self, record), default=str)


class LogfmtFormatter(logging.Formatter):
    """Writes each record as one line of `name=value`. Values with special characters are quoted."""

    def format(self, record: logging.LogRecord) -> str:
        fields = _collect(self, record).items()
        return " ".join(f"{name}={_quote(value)}" for name, value in fields if value is not None)


def _collect(formatter: logging.Formatter, record: logging.LogRecord) -> dict[str, object]:
    fields = {
        "at": iso(datetime.fromtimestamp(record.created, UTC)),
        "level": record.levelname,
        "logger": record.name,
        **({"event": event} if (event := find_event(record)) else {}),
        "message": record.getMessage(),
        **{name: value for name, value in vars(record).items() if name not in STANDARD},
    }
    if record.exc_info:
        fields["exception"] = formatter.formatException(record.exc_info)
    return fields


def find_event(record: logging.LogRecord) -> str | None:
    """Return the name of an inturn event, such as `job.failed`. docs/logging.md lists them."""
    found = EVENT.match(record.getMessage()) if is_ours(record) else None
    return found[1] if found else None


def is_ours(record: logging.LogRecord) -> bool:
    """Return True if inturn, and not your code, logged this."""
    return str(record.name).partition(".")[0] == "inturn"


def _quote(value: object) -> str:
    text = value if isinstance(value, str) else json.dumps(value, default=str)
    return text if PLAIN.fullmatch(text) else json.dumps(text)


FORMATTERS = {"console": LineFormatter, "json": JsonFormatter, "logfmt": LogfmtFormatter}


# A command passes them to `configure`.
log_options = combine(
    click.option(
        "--log-level",
        envvar="INTURN_LOG_LEVEL",
        type=click.Choice(LEVELS, case_sensitive=False),
        help="Log messages of this level and above.  [default: info]",
    ),
    click.option(
        "--log-format",
        envvar="INTURN_LOG_FORMAT",
        type=click.Choice([*FORMATTERS]),
        default="console",
        show_default=True,
        help="How to write each line: plain text, a JSON object, or name=value.",
    ),
)


def configure(*, verbose: bool, level: str | None = None, form: str = "console") -> None:
    """Log to standard error at this level and above: by default INFO, or DEBUG if `verbose`."""
    handler = logging.StreamHandler()
    handler.setFormatter(FORMATTERS[form]())
    handler.addFilter(JobFilter())
    logging.basicConfig(level=level.upper() if level else logging.INFO, handlers=[handler])
    if verbose or level == "debug":
        logging.getLogger("inturn").setLevel(logging.DEBUG)
    for name in ("alembic", "watchfiles"):  # they log every step
        logging.getLogger(name).setLevel(logging.WARNING)
    # The pool logs every failed attempt to connect. The worker already reports the outage.
    logging.getLogger("psycopg.pool").setLevel(logging.ERROR)


def enable() -> None:
    """Re-enable inturn's loggers after your module was imported.

    By default, `dictConfig` disables existing loggers. The worker would then be silent, even about
    failed jobs.
    """
    for name, logger in logging.root.manager.loggerDict.items():
        if name.partition(".")[0] == "inturn" and isinstance(logger, logging.Logger):
            logger.disabled = False
