"""The tests ignore the environment variables of their caller."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
CALLERS = {
    "INTURN_DSN": "postgresql://nowhere.invalid/shop",
    "INTURN_APP": "shop.tasks:app",
    "INTURN_LOG_LEVEL": "no level",
}


@pytest.mark.landing
def test_a_database_and_an_app_of_the_caller_change_nothing() -> None:
    ran = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "tests/cli/test_help.py", "-k", "heavy"],
        cwd=ROOT,
        env={**os.environ, **CALLERS},
        capture_output=True,
        text=True,
        check=False,
    )
    assert ran.returncode == 0, ran.stdout
