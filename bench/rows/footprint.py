"""The memory of an idle worker, and the time that the import takes."""

import os
import subprocess
import time
from statistics import median

from bench.arena import Arena
from bench.peers.node import BENCH
from bench.rows.row import Reading, Row, Scale, Scene

IMPORTS = 5

MEMORY = Row("memory", "memory of an idle worker", "MB", more=False)
IMPORT = Row("import", "import", "ms", more=False)


def memory(arena: Arena, scale: Scale) -> dict[str, Reading]:
    [worker] = arena.workers(1)
    worker.resume()
    time.sleep(0.5)
    return {MEMORY.name: Reading(worker.memory / 1e6)}


def importing(arena: Arena, scale: Scale) -> dict[str, Reading]:
    environment = {**os.environ, **dict(arena.peer.environment)}
    times = [
        float(subprocess.check_output(arena.peer.import_time, env=environment, cwd=BENCH))
        for _ in range(IMPORTS)
    ]
    return {IMPORT.name: Reading(median(times))}


SCENES = [Scene((MEMORY,), memory), Scene((IMPORT,), importing)]
