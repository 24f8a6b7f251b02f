"""The short form of chaos: a few seconds of each family of faults.

`make chaos` inflicts all of them, for ten minutes.
"""

from pathlib import Path

import pytest

from tests.chaos.faults import SHORT, chosen
from tests.chaos.play import Setup, perform
from tests.chaos.report import report
from tests.evidence.judge import check, describe

SEED = "short"
HEARTBEAT, STALLED = (
    0.7,
    4.0,
)  # seconds: less would find a busy machine, and not a defect


def test_nothing_is_lost_repeated_or_out_of_order_whatever_fails(
    tmp_path: Path, bin_dir: Path | None, capsys: pytest.CaptureFixture[str]
) -> None:
    setup = Setup(heartbeat=HEARTBEAT, stalled=STALLED, pause=0.3, bin_dir=bin_dir)
    perform(tmp_path, SEED, chosen(SHORT), None, setup)
    verdict = check(tmp_path)
    with capsys.disabled():
        print("\n" + report(verdict))
    assert verdict.passes, describe(verdict)
