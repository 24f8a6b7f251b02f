"""When a failed job is retried."""

from datetime import timedelta
from random import Random
from typing import Any
from uuid import uuid4

import pytest
from hypothesis import given
from hypothesis import strategies as st

from inturn import Job, RetryStrategy
from inturn.errors import BadArgument
from inturn.tasks.retry import LONGEST, find_strategy


def job(attempts: int) -> Job:
    return Job(1, str(uuid4()), 1, "task", "default", None, 0, attempts, None, {})


def waits(
    retry: Any, attempts: int = 0, exception: BaseException | None = None
) -> timedelta | None:
    chosen = find_strategy(retry)
    decision = (
        chosen.get_retry_decision(exception=exception or ValueError(), job=job(attempts))
        if chosen
        else None
    )
    return None if decision is None else decision.retry_in


def test_without_retry_a_failure_is_final() -> None:
    assert waits(False) is None
    assert waits(0) is None


def test_true_tries_for_ever_and_none_never() -> None:
    assert waits(True, attempts=10_000) == timedelta(0)
    assert waits(None) is None


def test_a_number_tries_that_often_and_waits_longer_and_longer_with_jitter() -> None:
    for attempts, longest in enumerate((2, 4, 8, 16)):
        waited = waits(4, attempts)
        assert waited is not None
        assert timedelta(seconds=longest * 0.75) <= waited <= timedelta(seconds=longest)
    assert waits(4, attempts=4) is None
    assert timedelta(minutes=45) <= (waits(99, attempts=90) or timedelta()) <= timedelta(hours=1)


@pytest.mark.parametrize("retry", [-1, "3", 1.5])
def test_what_is_no_number_of_retries_is_refused(retry: Any) -> None:
    with pytest.raises(BadArgument, match=f"{retry!r} is not a number of retries"):
        find_strategy(retry)


def test_strategies_with_the_same_settings_are_equal() -> None:
    assert RetryStrategy(max_attempts=3, wait=5) == RetryStrategy(max_attempts=3, wait=5)
    assert RetryStrategy(max_attempts=3) != RetryStrategy(max_attempts=4)
    assert len({RetryStrategy(wait=1), RetryStrategy(wait=1)}) == 1
    assert repr(RetryStrategy(max_attempts=3)) == "RetryStrategy(max_attempts=3)"


def test_the_wait_grows_as_declared() -> None:
    growing = RetryStrategy(wait=1, linear_wait=10, exponential_wait=2)
    assert [waits(growing, n) for n in range(3)] == [
        timedelta(seconds=s) for s in (1 + 0 + 2, 1 + 10 + 4, 1 + 20 + 8)
    ]


def test_only_the_named_exceptions_are_retried() -> None:
    picky = RetryStrategy(retry_exceptions=[OSError])
    assert waits(picky, exception=ConnectionError()) == timedelta(0)
    assert waits(picky, exception=ValueError()) is None


def test_a_negative_wait_is_refused() -> None:
    with pytest.raises(BadArgument, match="linear_wait: -1 is not a number of seconds"):
        RetryStrategy(linear_wait=-1)


@given(
    wait=st.floats(0, 1e300),
    linear=st.floats(0, 1e300),
    exponential=st.floats(0, 1e300),
    attempts=st.integers(0, 10**9),
)
def test_however_large_the_numbers_there_is_a_wait_within_bounds(
    wait: float, linear: float, exponential: float, attempts: int
) -> None:
    strategy = RetryStrategy(wait=wait, linear_wait=linear, exponential_wait=exponential)
    assert timedelta(0) <= strategy.delay(attempts) <= LONGEST


def test_a_wait_is_capped_before_it_is_spread() -> None:
    capped = RetryStrategy(exponential_wait=10, max_wait=60)
    assert [waits(capped, n) for n in range(3)] == [timedelta(seconds=s) for s in (10, 60, 60)]
    assert waits(RetryStrategy(exponential_wait=10, max_wait=60), attempts=10**6) == timedelta(
        seconds=60
    )
    assert waits(RetryStrategy(wait=float("inf"), max_wait=float("inf"))) == LONGEST


def test_a_single_exception_is_refused() -> None:
    with pytest.raises(BadArgument, match=r"retry_exceptions is a single exception\. Put it"):
        RetryStrategy(retry_exceptions=TimeoutError)  # type: ignore[arg-type]


class Always(Random):
    def random(self) -> float:
        return 0.5


def test_jitter_takes_off_a_part_of_the_wait() -> None:
    assert waits(RetryStrategy(wait=100, jitter=1, random=Always())) == timedelta(seconds=50)
    assert waits(RetryStrategy(wait=100, jitter=0.2, max_wait=50, random=Always())) == timedelta(
        seconds=45
    )


@given(wait=st.floats(0, 1e9), jitter=st.floats(0, 1), cap=st.floats(0, 1e9), seed=st.integers())
def test_a_wait_stays_within_what_jitter_and_cap_allow(
    wait: float, jitter: float, cap: float, seed: int
) -> None:
    found = waits(RetryStrategy(wait=wait, jitter=jitter, max_wait=cap, random=Random(seed)))
    longest = min(wait, cap, LONGEST.total_seconds())
    assert found is not None
    assert longest * (1 - jitter) - 1e-5 <= found.total_seconds() <= longest + 1e-5


@pytest.mark.parametrize(
    "option",
    [
        {"jitter": 1.5},
        {"jitter": -0.1},
        {"jitter": float("nan")},
        {"max_wait": -1},
        {"wait": float("nan")},
    ],
)
def test_a_jitter_or_cap_that_makes_no_sense_is_refused(option: dict[str, float]) -> None:
    with pytest.raises(BadArgument, match=f"{next(iter(option))}: "):
        RetryStrategy(**option)  # type: ignore[arg-type]
