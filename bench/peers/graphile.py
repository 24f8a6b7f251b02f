"""graphile-worker. A lane is a named queue. So N jobs of a key at a time are N named queues.

It deletes jobs that have run. Its adapter is node/graphile-worker.mjs.
"""

from bench.jobs import Tool
from bench.peers.node import node_peer

PEER = node_peer(
    "graphile-worker",
    "SELECT count(*) FROM graphile_worker._private_jobs",
    tools=(Tool.LIMIT, Tool.GROUP),
    settings="24 jobs at once, local queue of 1,000, batched completions, polls lanes every 3 ms",
)
