"""Run chaos by hand.

python -m tests.chaos [--seconds 600] [--seed TEXT] [--only KIND ...] [--list]
"""

import argparse
import sys
import tempfile
import time
from pathlib import Path

from tests.chaos.clock import LIBRARY, MISSING, Clock
from tests.chaos.faults import ALL, chosen, needs_clock
from tests.chaos.play import ALWAYS, Setup, perform
from tests.chaos.pooler import BINARY
from tests.chaos.report import report
from tests.evidence.judge import check, describe


def main() -> int:
    parser = argparse.ArgumentParser(
        prog="python -m tests.chaos", description="Faults of every kind, and a judge."
    )
    parser.add_argument("--seconds", type=float, default=600)
    parser.add_argument("--seed", default="")
    parser.add_argument("--only", action="append", default=[], metavar="KIND")
    parser.add_argument(
        "--folder", type=Path, help="where to write the history  [default: a new one]"
    )
    parser.add_argument("--pg-bin", type=Path, help="the folder of another server's programs")
    parser.add_argument("--list", action="store_true", help="list the kinds of faults")
    given = parser.parse_args()
    if given.list:
        print("\n".join(fault.kind for fault in ALL))
        return 0
    seed = given.seed or str(time.time_ns())
    folder = given.folder or Path(tempfile.mkdtemp(prefix="inturn-chaos-history-"))
    folder.mkdir(exist_ok=True)
    print(f"seed {seed}, history in {folder}", flush=True)
    if LIBRARY is None:
        print(MISSING)
    faults = chosen(given.only) if given.only else [*ALL]
    setup = Setup(
        bin_dir=given.pg_bin,
        pooled=BINARY is not None,
        required=() if given.only else ALWAYS,
        clock=Clock() if needs_clock(faults) else None,
    )
    perform(folder, seed, faults, given.seconds, setup)
    verdict = check(folder)
    print(report(verdict))
    print(describe(verdict))
    print(f"repeat it: make chaos SECONDS={given.seconds:g} SEED={seed}")
    return 0 if verdict.passes else 1


if __name__ == "__main__":
    sys.exit(main())
