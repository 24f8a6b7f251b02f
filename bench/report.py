"""Write the results: all readings as JSON, the table as Markdown."""

from __future__ import annotations

import json
import os
import platform
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import psutil

from bench.peers.adapter import Peer
from bench.run import Measured
from bench.summary import Line
from bench.table import against, times

RESULTS = Path(__file__).parent / "results"


@dataclass(frozen=True)
class About:
    """The facts that a reader needs to judge the numbers."""

    postgres: str
    rounds: int
    share: float
    peers: dict[str, str]  # by name: version and settings
    absent: dict[str, str]  # by name: the reason

    @property
    def machine(self) -> str:
        memory = psutil.virtual_memory().total / 2**30
        return f"{os.cpu_count()} cores, {memory:.0f} GB, {platform.system()}"

    @property
    def _rounds(self) -> str:
        return "one round" if self.rounds == 1 else f"medians of {self.rounds} rounds"

    def __str__(self) -> str:
        return (
            f"{self.machine}, PostgreSQL {self.postgres}, Python {platform.python_version()}; "
            f"{self._rounds} at {'full size' if self.share == 1 else f'{self.share:g} of the jobs'}"
        )


def about(
    postgres: str, rounds: int, share: float, peers: Sequence[Peer], absent: Sequence[Peer]
) -> About:
    versions = {peer.name: f"{peer.version()} ({peer.settings})" for peer in peers}
    return About(
        postgres, rounds, share, versions, {peer.name: peer.missing() or "" for peer in absent}
    )


def write(
    name: str,
    about: About,
    results: Sequence[Measured],
    lines: Sequence[Line],
    further: str = "",
) -> None:
    """Write both files, with a further table below the first."""
    RESULTS.mkdir(exist_ok=True)
    (RESULTS / f"{name}.md").write_text(_markdown(about, lines, further), encoding="utf-8")
    (RESULTS / f"{name}.json").write_text(_json(about, results), encoding="utf-8")


def _markdown(about: About, lines: Sequence[Line], further: str) -> str:
    peers = list(about.peers)
    floored = any(line.to_floor for line in lines)
    head = ["", *peers, "× best peer", *(["× bare SQL"] if floored else [])]
    rows = [head, ["---", *["---:"] * (len(head) - 1)]]
    for line in lines:
        texts = [line.texts.get(peer, "–") for peer in peers]
        floor = [times(line.to_floor)] if floored else []
        rows.append([f"{line.row.title}, {line.row.unit}", *texts, against(line), *floor])
    table = "\n".join(f"| {' | '.join(row)} |" for row in rows)
    versions = "\n".join(f"* {name} {version}" for name, version in about.peers.items())
    absent = "".join(f"\n* missing: {name}, {why}" for name, why in about.absent.items())
    notes = "".join(f"\n* {note}" for line in lines for note in line.notes)
    parts = [f"{about}.", table, notes.strip(), further, versions + absent]
    return "\n\n".join(part for part in parts if part) + "\n"


def _json(about: About, results: Sequence[Measured]) -> str:
    readings = [
        {
            "round": r.round,
            "row": r.row,
            "peer": r.peer,
            "value": r.reading and r.reading.value,
            "note": _note(r),
        }
        for r in results
    ]
    facts = {
        "machine": about.machine,
        "postgres": about.postgres,
        "rounds": about.rounds,
        "share": about.share,
        "peers": about.peers,
    }
    lines = ",\n  ".join(json.dumps(reading) for reading in readings)
    return f'{{"about": {json.dumps(facts)},\n "readings": [\n  {lines}\n]}}\n'


def _note(measured: Measured) -> str:
    return measured.why if measured.reading is None else measured.reading.note
