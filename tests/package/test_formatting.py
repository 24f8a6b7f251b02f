"""How people see times."""

from datetime import UTC, datetime, timedelta

import pytest

from inturn.formatting import relative

NOW = datetime(2026, 1, 2, tzinfo=UTC)


@pytest.mark.parametrize(
    ("seconds", "words"),
    [
        (7199.99, "in 2h00m"),
        (0.2, "in 1s"),
        (60, "in 1m00s"),
        (0, "0s ago"),
        (-59.9, "59s ago"),
        (-7200, "2h00m ago"),
    ],
)
def test_a_time_to_come_is_rounded_up_and_a_time_past_down(seconds: float, words: str) -> None:
    assert relative(NOW + timedelta(seconds=seconds), NOW) == words
