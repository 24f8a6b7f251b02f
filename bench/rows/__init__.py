"""The rows of the table.

A *scene* is one run of one peer. It yields the readings of one or more rows.
"""

from bench.rows import behind, crowd, drain, enqueue, flow, footprint, latency, order
from bench.rows.row import Row, Scene

SCENES: list[Scene] = [
    *enqueue.SCENES,
    *crowd.SCENES,
    *drain.SCENES,
    *behind.SCENES,
    *order.SCENES,
    *latency.SCENES,
    *footprint.SCENES,
]
FLOW: list[Scene] = flow.SCENES
FLOW_ROWS: dict[str, Row] = {row.name: row for scene in FLOW for row in scene.rows}
ROWS: dict[str, Row] = {row.name: row for scene in SCENES for row in scene.rows}
