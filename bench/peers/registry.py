"""The queues that are measured, ours first."""

import os
from pathlib import Path

from bench.peers import (
    awa,
    chancy,
    enqueuers,
    floor,
    graphile,
    ours,
    pgboss,
    pgqueuer,
    procrastinate,
)
from bench.peers.adapter import ROOT, Peer

OURS = "inturn"
BASE = "inturn (base)"
POOLED = "inturn (pooled)"
UVLOOP = "inturn (uvloop)"
FLOOR = floor.PEER.name


def all_peers() -> list[Peer]:
    """Return all peers.

    `INTURN_SOURCE` names the checkout to measure, `BASE` another one to compare with.
    """
    peers = [ours.peer(OURS, Path(os.environ.get("INTURN_SOURCE") or ROOT))]
    if os.environ.get("BASE"):
        peers.append(ours.peer(BASE, Path(os.environ["BASE"])))
    peers.append(ours.peer(POOLED, ROOT, ours.POOLED))
    peers.append(ours.peer(UVLOOP, ROOT, ours.UVLOOP))
    peers += [enqueuers.peer(kind, ROOT) for kind in enqueuers.SETTINGS]
    return [
        *peers,
        procrastinate.PEER,
        pgqueuer.PEER,
        chancy.PEER,
        graphile.PEER,
        pgboss.PEER,
        awa.PEER,
        floor.PEER,
    ]
