"""What a worker says, a line each, on standard error. The library configures no handlers: a program's log is its own."""

import logging
import time


def configure(*, verbose: bool) -> None:
    handler = logging.StreamHandler()
    form = logging.Formatter("%(asctime)s %(levelname)-7s %(message)s", "%Y-%m-%dT%H:%M:%SZ")
    form.converter = time.gmtime
    handler.setFormatter(form)
    logging.basicConfig(level=logging.INFO, handlers=[handler])
    if verbose:
        logging.getLogger("inturn").setLevel(logging.DEBUG)
    for name in ("alembic", "watchfiles"):  # they announce every step
        logging.getLogger(name).setLevel(logging.WARNING)
    # The pool repeats every failed attempt to connect; the worker reports the outage itself.
    logging.getLogger("psycopg.pool").setLevel(logging.ERROR)
