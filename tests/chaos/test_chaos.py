"""The short forms of chaos: a few seconds of each family of faults.

`make chaos` inflicts all of them, for ten minutes.
"""

from pathlib import Path

import pytest

from tests.chaos.faults import QUICK, SHORT, chosen
from tests.chaos.play import Setup, perform
from tests.chaos.report import report
from tests.evidence.judge import check, describe

SEED = "short"
RUNS = 3  # at most: a run in which something rare does not happen shows too little
HEARTBEAT, STALLED = 0.7, 4.0  # seconds: less would find a busy machine, and not a defect


@pytest.mark.parametrize("kinds", [QUICK, pytest.param(SHORT, marks=pytest.mark.landing)], ids=len)
def test_nothing_is_lost_repeated_or_out_of_order_whatever_fails(
    kinds: list[str], tmp_path: Path, bin_dir: Path | None, capsys: pytest.CaptureFixture[str]
) -> None:
    setup = Setup(heartbeat=HEARTBEAT, stalled=STALLED, pause=0.3, bin_dir=bin_dir)
    never_happened: list[set[str]] = []
    for number in range(RUNS):
        folder = tmp_path / f"{number}"
        folder.mkdir()
        perform(folder, f"{SEED} {number + 1}", chosen(kinds), None, setup)
        verdict = check(folder)
        with capsys.disabled():
            print("\n" + report(verdict))
        assert verdict.word == "valid", describe(verdict)
        never_happened.append(set(verdict.missing))
        if not set.intersection(*never_happened):
            return
    pytest.fail(f"never happened in {RUNS} runs: {set.intersection(*never_happened)}")
