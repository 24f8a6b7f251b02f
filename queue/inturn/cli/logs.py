"""What a worker says, a line each, on standard error. The library configures no handlers: a program's log is its own.

Names of tasks and texts of errors come from whoever may defer a job. They can neither act on a terminal nor pass for a line
of the log: escapes are made here and nowhere else, for whatever is logged.
"""

import logging
import re
import time

from inturn.cli.formatting import visible

INDENT = "    "
PLACE = re.compile(r"%(?!%)")  # where an argument goes


class LineFormatter(logging.Formatter):
    """A message is one line. What its template has after a line break, such as a traceback, follows indented."""

    def __init__(self) -> None:
        super().__init__("%(asctime)s %(levelname)-7s %(message)s", "%Y-%m-%dT%H:%M:%SZ")
        self.converter = time.gmtime

    def formatMessage(self, record: logging.LogRecord) -> str:
        head, more = _parted(record)
        record.message = visible(head)
        return super().formatMessage(record) + (f"\n{indented(more)}" if more else "")

    def formatException(self, ei: object) -> str:
        return indented(super().formatException(ei))  # type: ignore[arg-type]

    def formatStack(self, stack_info: str) -> str:
        return indented(super().formatStack(stack_info))


def _parted(record: logging.LogRecord) -> tuple[str, str]:
    template = str(record.msg)
    head, _, more = template.partition("\n")
    if not more:
        return record.getMessage(), ""
    if not isinstance(record.args, tuple) or not record.args:
        return (head, more) if not record.args else (record.getMessage(), "")
    count = len(PLACE.findall(head.replace("%%", "")))
    return head % record.args[:count], more % record.args[count:]


def indented(text: str) -> str:
    return "\n".join(INDENT + visible(line) for line in text.strip("\n").split("\n"))


def configure(*, verbose: bool) -> None:
    handler = logging.StreamHandler()
    handler.setFormatter(LineFormatter())
    logging.basicConfig(level=logging.INFO, handlers=[handler])
    if verbose:
        logging.getLogger("inturn").setLevel(logging.DEBUG)
    for name in ("alembic", "watchfiles"):  # they announce every step
        logging.getLogger(name).setLevel(logging.WARNING)
    # The pool repeats every failed attempt to connect; the worker reports the outage itself.
    logging.getLogger("psycopg.pool").setLevel(logging.ERROR)
