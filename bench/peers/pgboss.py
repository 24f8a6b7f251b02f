"""pg-boss; a lane is a key in a queue of the policy key_strict_fifo. Its side stands in node/pg-boss.mjs."""

from bench.peers.node import node_peer

PEER = node_peer(
    "pg-boss",
    "SELECT count(*) FROM pgboss.job WHERE state < 'completed' AND name IN ('free', 'lanes')",
    settings="batches of 1,000 (lanes: at most half of the lanes) fetched while they are full, notify, polls each 0.5 s",
)
