"""Bulk changes that run in this process, step by step, while people watch.

Each step commits separately. If a run was stopped or its process ended, a new run of the same
filter does the rest, so runs are not stored.
"""

import logging
import secrets
import threading
from collections.abc import Callable
from contextlib import closing
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import partial
from typing import Literal

from inturn.database.connector import Connector
from inturn.errors import InturnError
from inturn.formatting import visible
from inturn.operations import Operation
from inturn.operations.changes.bulk import Bulk, Watch

MOST_AT_ONCE = 2  # each has a connection of its own
REMEMBERED = 100  # runs that have ended
TERMS = "SET statement_timeout = '60s'"
State = Literal["running", "stopped", "broken", "ended"]
logger = logging.getLogger(__name__)


class _Stopped(Exception):
    """A person stopped the run."""


@dataclass
class BulkRun:
    """A bulk change and its progress."""

    noun: str  # job or lane
    action: str
    by: str
    count: int  # from the preview
    more: bool
    query: dict[str, str]  # the address of its preview
    change: Callable[[Bulk, Watch], Operation[Bulk]]
    name: str = field(default_factory=partial(secrets.token_urlsafe, 12))
    started_at: datetime = field(default_factory=partial(datetime.now, UTC))
    done: Bulk = field(default_factory=Bulk)
    state: State = "running"
    error: str | None = None
    is_to_stop: threading.Event = field(default_factory=threading.Event)

    def watch(self, done: Bulk) -> None:
        """End the run between two steps if a person asked for it."""
        if self.is_to_stop.is_set():
            raise _Stopped


class BulkRuns:
    """The runs of this process."""

    def __init__(self, connector: Connector) -> None:
        self._connector = connector
        self._guard = threading.Lock()
        self._runs: dict[str, BulkRun] = {}

    def begin(self, run: BulkRun) -> bool:
        """Start a run. Return False if too many are running."""
        with self._guard:
            if sum(each.state == "running" for each in self._runs.values()) >= MOST_AT_ONCE:
                return False
            ended = [name for name, each in self._runs.items() if each.state != "running"]
            for name in ended[: max(0, len(ended) - REMEMBERED + 1)]:
                del self._runs[name]
            # A daemon thread: the process exits without waiting, and each step is a transaction.
            threading.Thread(
                target=self._run, args=(run,), name="inturn-web-bulk", daemon=True
            ).start()
            self._runs[run.name] = run
            return True

    def get(self, name: str) -> BulkRun | None:
        return self._runs.get(name)

    def close(self) -> None:
        """Stop all runs after their current step."""
        for run in list(self._runs.values()):
            run.is_to_stop.set()

    def _run(self, run: BulkRun) -> None:
        state: State = "broken"
        try:
            with closing(self._connector.connect("web")) as connection:
                connection.execute(TERMS)
                self._connector.run(run.change(run.done, run.watch), connection)
            state = "ended"
        except _Stopped:
            state = "stopped"
        except InturnError as error:
            run.error = str(error)
        except Exception:
            run.error = "Unexpected error. See the dashboard's log."
            logger.exception("dashboard.bulk_broken: %s %ss", run.action, run.noun)
        finally:
            run.state = state
            logger.info(
                "dashboard.bulk_ended: %s %ss by %s, %s: %d changed, %d asked, %d left",
                *(run.action, run.noun, visible(run.by), state),
                *(run.done.changed, run.done.asked, run.done.refused.total()),
            )
