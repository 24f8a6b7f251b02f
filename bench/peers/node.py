"""The common part of the peers on Node: find them, and check that they are installed.

Their adapters are in node/.
"""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

from bench.peers.adapter import SLOTS, Peer

IMPORT = "const t = performance.now(); await import('{}'); console.log(performance.now() - t)"
BENCH = Path(__file__).resolve().parents[1]


def node_peer(name: str, unfinished: str, **more: Any) -> Peer:
    manifest = BENCH / "node_modules" / name / "package.json"

    def missing() -> str | None:
        if shutil.which("node") is None:
            return "Node is not installed"
        return None if manifest.exists() else f"the npm package {name} is not installed"

    return Peer(
        name,
        name,
        unfinished,
        command=("node", str(BENCH / "node" / f"{name}.mjs")),
        environment=(("SLOTS", str(SLOTS)), ("NODE_NO_WARNINGS", "1")),
        missing=missing,
        import_time=("node", "--input-type=module", "-e", IMPORT.format(name)),
        version=lambda: str(json.loads(manifest.read_text(encoding="utf-8"))["version"]),
        **more,
    )
