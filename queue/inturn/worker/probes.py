"""Metrics, health checks and systemd notifications, for workers that use them.

Other workers import nothing and pay nothing.
"""

import logging
import os
import threading
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from typing import TYPE_CHECKING

from inturn.database.connector import Connector
from inturn.tasks.blueprint import Blueprint
from inturn.worker.observer import Observer
from inturn.worker.options import Options

if TYPE_CHECKING:
    from inturn.endpoint import Route
    from inturn.health.checks import Health
    from inturn.health.systemd import Notifier
    from inturn.metrics.process import ProcessMetrics
    from inturn.worker.pulse import Pulse
    from inturn.worker.vitals import Vitals

logger = logging.getLogger(__name__)


class Probes:
    """The parts that watch a worker and report on it: health, metrics, systemd."""

    def __init__(
        self,
        pulse: "Pulse",
        metrics: "ProcessMetrics | None",
        health: "Health | None",
        notifier: "Notifier | None",
    ) -> None:
        self._pulse = pulse
        self._metrics = metrics
        self._health = health
        self._notifier = notifier
        self.observer: Observer | None = metrics

    def attach(self, vitals: "Vitals") -> None:
        """Watch this worker from now on."""
        self._pulse.at_each_beat(vitals.look_at_loop)
        if self._metrics is not None:
            self._metrics.attach(vitals)
        if self._health is not None:
            self._health.attach(vitals)

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
        metrics = (
            None if options.metrics_port is None else _make_metrics(app, options, connector, pulse)
        )
        health = None if options.health_port is None else _make_health(stack, connector, pulse)
        served: dict[int | None, dict[str, Route]] = {}
        if metrics is not None:
            served.setdefault(options.metrics_port, {}).update(metrics.routes())
        if health is not None:
            served.setdefault(options.health_port, {}).update(health.routes())
        for port, routes in served.items():
            _serve(stack, options.bind, port or 0, routes)
        interval = SECOND
        if notifier is not None and notifier.watchdog is not None:
            interval = min(interval, notifier.watchdog / 3)
            pulse.at_each_beat(notifier.say_alive)
        pulse.start(interval)
        yield Probes(pulse, metrics, health, notifier)


def _find_notifier(stack: ExitStack) -> "Notifier | None":
    if threading.current_thread() is not threading.main_thread():
        return None  # the process is not the worker's
    from inturn.health.systemd import find_notifier

    notifier = find_notifier()
    if notifier is not None:
        stack.callback(notifier.close)
    return notifier


def _make_metrics(
    app: Blueprint, options: Options, connector: Connector, pulse: "Pulse"
) -> "ProcessMetrics":
    from inturn.metrics.process import ProcessMetrics

    tasks: Mapping[str, object] = app.tasks if options.metrics_tasks else {}
    return ProcessMetrics(tasks, connector, pulse.lag)


def _make_health(stack: ExitStack, connector: Connector, pulse: "Pulse") -> "Health":
    from inturn.health.checks import Health
    from inturn.health.database_check import DatabaseCheck

    check = DatabaseCheck(connector)
    stack.callback(check.close)
    return Health(pulse.blocked, check.find_problem)


def _serve(stack: ExitStack, host: str, port: int, routes: "dict[str, Route]") -> None:
    from inturn.endpoint import Endpoint

    endpoint = stack.enter_context(Endpoint(host, port, routes))
    logger.info("endpoint.serving: %s with %s", endpoint.address, ", ".join(routes))
