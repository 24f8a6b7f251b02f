"""Metrics, health checks and systemd notifications, for workers that use them.

Other workers import nothing and pay nothing.
"""

import logging
import os
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING

from inturn.database.connector import Connector
from inturn.tasks.blueprint import Blueprint
from inturn.vitals import Vitals
from inturn.worker.failures import Failures
from inturn.worker.heartbeat import Heartbeat
from inturn.worker.loop import Loop
from inturn.worker.options import Options
from inturn.worker.state import LoopState

if TYPE_CHECKING:
    from inturn.endpoint import Route
    from inturn.health.checks import Health
    from inturn.health.systemd import Notifier
    from inturn.metrics.process import ProcessMetrics
    from inturn.worker.pulse import Pulse

logger = logging.getLogger(__name__)


@dataclass(eq=False)
class Probes:
    """The parts that watch a worker and report on it: health, metrics, systemd."""

    metrics: "ProcessMetrics | None"
    _health: "Health | None"
    _notifier: "Notifier | None"

    def attach(self, look: Callable[[], Vitals]) -> None:
        """Watch this worker from now on."""
        for each in (self.metrics, self._health):
            if each is not None:
                each.attach(look)

    def note_serving(self) -> None:
        """Note that the worker has registered and begins to run jobs."""
        if self._notifier is not None:
            self._notifier.say_ready()

    def note_stopping(self) -> None:
        """Note that the worker accepts no more jobs."""
        if self._notifier is not None:
            self._notifier.say_stopping()


@contextmanager
def serve_probes(app: Blueprint, connector: Connector, options: Options) -> Iterator[Probes | None]:
    """Serve what the options ask for while the block runs. Yield None if that is nothing."""
    wants_systemd = options.install_signal_handlers and "NOTIFY_SOCKET" in os.environ
    if options.metrics_port is None and options.health_port is None and not wants_systemd:
        yield None
        return
    from inturn.worker.pulse import SECOND, Pulse

    with ExitStack() as stack:
        pulse = Pulse()
        stack.callback(pulse.stop)
        notifier = _find_notifier(stack) if wants_systemd else None
        metrics = health = None
        served: dict[int, dict[str, Route]] = {}
        if options.metrics_port is not None:
            from inturn.metrics.process import ProcessMetrics

            tasks: Mapping[str, object] = app.tasks if options.metrics_tasks else {}
            metrics = ProcessMetrics(tasks, connector, pulse.lag)
            served.setdefault(options.metrics_port, {}).update(metrics.routes())
        if options.health_port is not None:
            health = _make_health(stack, connector, pulse)
            served.setdefault(options.health_port, {}).update(health.routes())
        for port, routes in served.items():
            from inturn.endpoint import Endpoint

            endpoint = stack.enter_context(Endpoint(options.bind, port, routes))
            logger.info("endpoint.serving: %s with %s", endpoint.address, ", ".join(routes))
        if notifier is not None and notifier.watchdog is not None:
            pulse.start(min(SECOND, notifier.watchdog / 3), notifier.say_alive)
        else:
            pulse.start()
        yield Probes(metrics, health, notifier)


def read_vitals(state: LoopState, failures: Failures, loop: Loop, heartbeat: Heartbeat) -> Vitals:
    """Read the parts of a worker, which need not know who asks."""
    return Vitals(
        is_registered=hasattr(state.registration, "worker_id"),
        is_stopping=state.is_stopped,
        is_database_away=failures.is_database_away,
        trouble=state.registration.trouble,
        last_turn=loop.turned_at,
        longest_pause=state.options.abort_job_polling_interval,
        slots=state.options.concurrency,
        busy_slots=len(state.running.attempts),
        is_listening=state.registration.listens(),
        counted_wakeups=state.wakeups.counted,
        heartbeat_failures=heartbeat.failures,
    )


def _find_notifier(stack: ExitStack) -> "Notifier | None":
    if threading.current_thread() is not threading.main_thread():
        return None  # the process is not the worker's
    from inturn.health.systemd import find_notifier

    notifier = find_notifier()
    if notifier is not None:
        stack.callback(notifier.close)
    return notifier


def _make_health(stack: ExitStack, connector: Connector, pulse: "Pulse") -> "Health":
    from inturn.health.checks import Health
    from inturn.health.database_check import DatabaseCheck

    check = DatabaseCheck(connector)
    stack.callback(check.close)
    return Health(pulse.blocked, check.find_problem)
