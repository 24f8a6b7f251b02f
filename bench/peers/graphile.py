"""graphile-worker; a lane is a named queue. It deletes what has run. Its side stands in node/graphile-worker.mjs."""

from bench.peers.node import node_peer

PEER = node_peer(
    "graphile-worker",
    "SELECT count(*) FROM graphile_worker._private_jobs",
    settings="24 jobs at once, local queue of 500, completions in batches, polls lanes each 3 ms",
)
