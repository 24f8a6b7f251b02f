"""The example of a periodic report runs with one command."""

import re
import shutil
import signal
from pathlib import Path

import pytest

from tests.cli.conftest import Start, Until

pytestmark = pytest.mark.landing

EXAMPLE = Path(__file__).parents[2] / "examples" / "report.py"


def test_the_shop_reports_all_that_it_sold_every_five_seconds(
    start: Start, folder: Path, until: Until
) -> None:
    shutil.copy(EXAMPLE, folder)
    (command,) = re.findall(r'queue ([^"]*)', EXAMPLE.read_text(encoding="utf-8").splitlines()[0])
    shop = start(*command.split())

    def reports() -> list[str]:
        return [line for line in (folder / "out").read_text().splitlines() if line.endswith("sold")]

    until(lambda: len(reports()) >= 3)
    shop.send_signal(signal.SIGINT)
    assert shop.wait(60) == 0
    first, *others = reports()  # the shop opened in the middle of the first interval
    assert re.fullmatch(r"\d\d:\d\d:\d[05] to \d\d:\d\d:\d[05] [0-5] sold", first)
    assert {line.split(" ", 3)[3] for line in others} == {"5 sold"}
    assert [line.split()[0] for line in others] == [
        line.split()[2] for line in [first, *others[:-1]]
    ]
