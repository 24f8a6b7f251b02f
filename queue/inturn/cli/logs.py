"""A worker's log on standard error: one line for each event.

The library itself configures no handlers: logging is up to your program.

Names of tasks and texts of errors come from anyone who can defer a job.
They must not act on a terminal, or look like a line of the log.
This formatter escapes everything that is logged, so that no other code has to.
"""

import logging
import re
import time

from inturn.cli.formatting import visible

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

    def formatException(self, ei: object) -> str:
        return indent(super().formatException(ei))  # type: ignore[arg-type]

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


def configure(*, verbose: bool) -> None:
    """Log to standard error, from level INFO on, or from DEBUG on if `verbose`."""
    handler = logging.StreamHandler()
    handler.setFormatter(LineFormatter())
    logging.basicConfig(level=logging.INFO, handlers=[handler])
    if verbose:
        logging.getLogger("inturn").setLevel(logging.DEBUG)
    for name in ("alembic", "watchfiles"):  # they announce every step
        logging.getLogger(name).setLevel(logging.WARNING)
    # The pool logs every failed attempt to connect, but the worker reports the outage itself.
    logging.getLogger("psycopg.pool").setLevel(logging.ERROR)
