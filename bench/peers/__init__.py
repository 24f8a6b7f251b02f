"""The queues that are measured, ours first."""

import os
from pathlib import Path

from bench.peers import floor, graphile, ours, pgqueuer
from bench.peers.adapter import ROOT, Peer

OURS = "inturn"
FLOOR = floor.PEER.name


def all_peers() -> list[Peer]:
    """`INTURN_SOURCE` names the checkout that is measured, `BASE` another one to set beside it."""
    peers = [ours.peer(OURS, Path(os.environ.get("INTURN_SOURCE") or ROOT))]
    if os.environ.get("BASE"):
        peers.append(ours.peer("inturn (base)", Path(os.environ["BASE"])))
    return [*peers, graphile.PEER, pgqueuer.PEER, floor.PEER]
