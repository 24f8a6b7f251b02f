"""A worker counts as silent only if this process has observed the silence itself."""

from collections.abc import Iterable
from datetime import UTC, datetime, timedelta
from uuid import UUID

import pytest

from inturn.worker.witness import Witness

ME, OTHER = UUID(int=1), UUID(int=2)
START = datetime(2030, 1, 1, tzinfo=UTC)
PATIENCE, GAP = 30.0, 20.0
Look = tuple[float, int, int]  # when, and the number of my own and of the other's last heartbeat


def at(beat: int) -> datetime:
    return START + timedelta(seconds=beat)


def judged(looks: Iterable[Look], forget: int | None = None) -> list[bool]:
    """After each look, whether the other is silent. `forget`: before the look with this number."""
    witness = Witness(PATIENCE, GAP)
    answers = []
    for number, (now, mine, other) in enumerate(looks):
        if number == forget:
            witness.forget()
        answers.append(
            witness.look({ME: at(mine), OTHER: at(other)}, ME, now) == {OTHER: at(other)}
        )
    return answers


def test_a_heartbeat_that_stands_still_through_all_looks_is_silent_after_the_patience() -> None:
    assert judged((10.0 * n, n, 7) for n in range(5)) == [False, False, False, True, True]


def test_a_single_sign_of_life_restarts_the_observation() -> None:
    assert judged((10.0 * n, n, 7 if n < 3 else 8) for n in range(6)) == [False] * 6


def test_a_worker_that_means_to_be_heard_of_rarely_is_silent_only_after_three_of_its_heartbeats() -> (
    None
):
    witness = Witness(PATIENCE, GAP)
    looks = [
        bool(witness.look({ME: at(n), OTHER: at(7)}, ME, 10.0 * n, {OTHER: 20.0})) for n in range(8)
    ]
    assert looks == [False] * 6 + [True] * 2


@pytest.mark.parametrize("pause", [21.0, 1e6])
def test_a_pause_between_two_looks_restarts_the_observation_however_long_it_was(
    pause: float,
) -> None:
    before = [(10.0 * n, n, 7) for n in range(3)]
    after = [(20.0 + pause + 10 * n, 3 + n, 7) for n in range(4)]
    assert judged(before + after) == [False] * 6 + [True]


def test_a_failed_look_restarts_the_observation() -> None:
    assert judged(((10.0 * n, n, 7) for n in range(6)), forget=2) == [False] * 5 + [True]


def test_nobody_is_judged_while_our_own_heartbeat_does_not_get_through() -> None:
    assert judged((10.0 * n, 1, 7) for n in range(50)) == [False] * 50


def test_a_worker_that_is_not_registered_judges_no_other() -> None:
    witness = Witness(PATIENCE, GAP)
    assert [witness.look({OTHER: START}, ME, 10.0 * n) for n in range(9)] == [{}] * 9


def test_the_clocks_of_others_do_not_matter() -> None:
    jumping = [(10.0 * n, (-1) ** n * 100_000 + n, (-1) ** n * 3600 + n) for n in range(20)]
    assert judged(jumping) == [False] * 20


def test_a_worker_that_was_forgotten_has_its_whole_time_again() -> None:
    witness = Witness(PATIENCE, GAP)
    silent = [witness.look({ME: at(n), OTHER: START}, ME, 10.0 * n) for n in range(4)]
    assert silent[-1] == {OTHER: START}
    witness.forget(OTHER)
    assert [bool(witness.look({ME: at(n), OTHER: START}, ME, 10.0 * n)) for n in range(4, 8)] == [
        False
    ] * 3 + [True]
