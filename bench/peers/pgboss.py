"""pg-boss. A lane is a key in a queue with the policy key_strict_fifo.

Its adapter is node/pg-boss.mjs.
"""

from bench.peers.node import node_peer

PEER = node_peer(
    "pg-boss",
    "SELECT count(*) FROM pgboss.job WHERE state < 'completed' AND name IN ('free', 'lanes')",
    max_queues=1,
    settings="two local workers, batches of 1,000 (at most half as many as there are lanes), "
    "fetches again after a full batch, NOTIFY, polls every 0.5 s",
)
