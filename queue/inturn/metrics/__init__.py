"""Metrics for Prometheus: those of one process, and those of the database.

`catalogue` names all of them. `process` counts what a worker does, `producer` what a process
defers, and `database` collects what the database knows. Nothing here is imported until it is
used, because it needs the extra `metrics`.
"""

from importlib.util import find_spec

from inturn.errors import MissingExtra

if find_spec("prometheus_client") is None:
    raise MissingExtra("Metrics", "metrics")
