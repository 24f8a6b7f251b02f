"""A failure that repeats is reported when it is new, and now and then while it lasts."""

import logging
from collections.abc import Iterator
from math import inf

import pytest

from inturn.errors import DatabaseUnavailable
from inturn.worker.retrying import MOST, REMINDER, FailureLog

logger = logging.getLogger(__name__)


class Outage:
    """Tries that fail, one second after the other."""

    def __init__(self, caplog: pytest.LogCaptureFixture, **given: float) -> None:
        caplog.set_level(logging.DEBUG, __name__)
        self._caplog = caplog
        self._now = 0.0
        self.log = FailureLog(logger, "it.failed", lambda: self._now, **given)

    def fail(self, *reasons: str) -> Iterator[tuple[str, str]]:
        """Yield the level and the text of each line."""
        for reason in reasons:
            self.log.note(DatabaseUnavailable(reason), 0.5)
            self._now += 1
            record = self._caplog.records[-1]
            yield record.levelname, record.getMessage()

    def warned(self, *reasons: str) -> list[int]:
        """Return which of these tries were warned of."""
        levels = [level for level, _ in self.fail(*reasons)]
        return [at for at, level in enumerate(levels) if level == "WARNING"]


@pytest.fixture
def outage(caplog: pytest.LogCaptureFixture) -> Outage:
    return Outage(caplog)


def test_the_first_failure_is_a_warning_and_its_repetitions_are_for_debugging(
    outage: Outage,
) -> None:
    assert list(outage.fail("away", "away")) == [
        ("WARNING", "it.failed: away; next try in 0.5 s"),
        ("DEBUG", "it.failed: away; next try in 0.5 s"),
    ]


def test_a_failure_that_lasts_is_reported_again_every_half_minute(outage: Outage) -> None:
    tries = int(3 * REMINDER)
    assert outage.warned(*["away"] * tries) == list(range(0, tries, int(REMINDER)))


def test_what_does_no_harm_is_reported_once_a_state(caplog: pytest.LogCaptureFixture) -> None:
    outage = Outage(caplog, reminder=inf)
    assert outage.warned(*["away"] * 100, "refused") == [0, 100]
    outage.log.forget()
    assert outage.warned("away") == [0]


def test_another_reason_is_reported_at_once(outage: Outage) -> None:
    assert outage.warned("away", "away", "refused", "refused") == [0, 2]


def test_reasons_that_alternate_are_not_reported_at_every_try(outage: Outage) -> None:
    assert outage.warned(*["away", "refused"] * 10) == [0, 1]


def test_an_outage_is_reported_again_if_it_worked_in_between(outage: Outage) -> None:
    assert outage.warned("away", "away") == [0]
    outage.log.forget()
    assert outage.warned("away", "away") == [0]


@pytest.mark.parametrize("reminder", [REMINDER, inf])
def test_reasons_that_are_over_do_not_pile_up(
    caplog: pytest.LogCaptureFixture, reminder: float
) -> None:
    outage = Outage(caplog, reminder=reminder)
    outage.warned(*(f"port {number} refused" for number in range(2 * MOST)))
    assert len(outage.log._remind_at) <= min(MOST, reminder + 1)


def test_an_error_that_nobody_has_listed_is_an_error(caplog: pytest.LogCaptureFixture) -> None:
    FailureLog(logging.getLogger(__name__), "it.failed").note(ValueError("strange"), 0.5)
    assert [record.levelname for record in caplog.records] == ["ERROR"]
