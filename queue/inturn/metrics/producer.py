"""Jobs deferred by one process: a web server, a script, or a worker whose tasks defer."""

from collections.abc import Sequence
from threading import Lock

from prometheus_client import Counter

from inturn.metrics.catalogue import METRICS, MOST_QUEUES, OTHER
from inturn.operations import Rows
from inturn.operations.engine import enqueue
from inturn.tasks.options import NewJob

NAME = "inturn_jobs_enqueued_total"
_guard = Lock()
_counters: "list[DeferredJobs]" = []  # at most one: a process has one default registry


def count_deferred_jobs() -> None:
    """Count the jobs that this process defers, in the default registry of `prometheus_client`.

    Your program serves that registry as it does its own metrics. Call it as often as you like.
    """
    with _guard:
        if not _counters:
            _counters.append(DeferredJobs())
            enqueue.watchers.append(_counters[0].note)


class QueueLabels:
    """Labels the first queues with their names, and all others alike."""

    def __init__(self) -> None:
        self._known: set[str] = set()

    def label(self, queue: str) -> str:
        if queue not in self._known:
            if len(self._known) >= MOST_QUEUES:
                return OTHER
            self._known.add(queue)
        return queue


class DeferredJobs:
    """Counts deferred jobs by queue and task."""

    def __init__(self) -> None:
        about = METRICS[NAME]
        self._counter = Counter(NAME, about.help, about.labels)
        self._queues = QueueLabels()

    def note(self, jobs: Sequence[NewJob], rows: Rows) -> None:
        """Record deferred jobs. A second column in a row tells whether the job is new."""
        for job, row in zip(jobs, rows, strict=True):
            is_new = len(row) == 1 or row[1]
            result = "new" if is_new else "waiting"
            self._counter.labels(self._queues.label(job.options.queue), job.task_name, result).inc()
