"""pg-boss. A lane is a key in a queue with the policy key_strict_fifo.

A limit is a group with a group concurrency, and so is a tenant, because groups do not take turns.
Chains and batches are flows. Its adapter is node/pg-boss.mjs.
"""

from bench.jobs import Tool
from bench.peers.node import node_peer

PEER = node_peer(
    "pg-boss",
    "SELECT count(*) FROM pgboss.job "
    "WHERE state < 'completed' AND name IN ('free', 'lanes', 'groups')",
    max_queues=1,
    tools=(Tool.LIMIT, Tool.GROUP, Tool.AFTER, Tool.BATCH),
    settings="two local workers, batches of 1,000 (at most half as many as there are lanes, and as "
    "many as all limits allow), fetches again after a full batch, NOTIFY, polls every 0.5 s, flows "
    "every second",
)
