"""How people see times."""

from datetime import UTC, datetime, timedelta

import pytest

from inturn.cli.values import read_duration
from inturn.formatting import at_least, exact, list_remedies, relative, size

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


@pytest.mark.parametrize("text", ["0.001s", "90.5s", "90s", "90m", "365d", "31535999.999999s"])
def test_an_exact_length_is_one_that_commands_read(text: str) -> None:
    assert exact(read_duration(text)) == text


@pytest.mark.parametrize(
    ("advice", "parts"),
    [
        (None, []),
        ("use NTP on both", [("use NTP on both", False)]),
        ("queue lanes resume 'a; b: queue c'", [("queue lanes resume 'a; b: queue c'", True)]),
        (
            "commit it; if you cannot: SELECT pg_terminate_backend(7)",
            [("commit it; if you cannot:", False), ("SELECT pg_terminate_backend(7)", True)],
        ),
        (
            "if it hangs: queue jobs cancel --abort 7; if you can allow more: queue limits set 'a b'",
            [
                ("if it hangs:", False),
                ("queue jobs cancel --abort 7", True),
                ("if you can allow more:", False),
                ("queue limits set 'a b'", True),
            ],
        ),
        (
            "if it stays so: kill -9 7 on host (it runs 1 job)",
            [
                ("if it stays so:", False),
                ("kill -9 7", True),
                ("on host (it runs 1 job)", False),
            ],
        ),
        (
            "queue queues resume mail; queue lanes resume 'a; b'",
            [("queue queues resume mail", True), ("queue lanes resume 'a; b'", True)],
        ),
        (
            "UPDATE inturn.schedules SET last_instant = now();",
            [("UPDATE inturn.schedules SET last_instant = now();", True)],
        ),
    ],
)
def test_a_command_to_copy_stands_apart_from_its_sentence(
    advice: str | None, parts: list[tuple[str, bool]]
) -> None:
    assert list_remedies(advice) == parts


def test_a_count_that_saw_nothing_and_not_everything_is_unknown() -> None:
    assert [at_least(0, False), at_least(0, True), at_least(1000, True)] == ["0", "?", "1,000+"]


@pytest.mark.parametrize(
    ("count", "text"),
    [
        (0, "0 B"),
        (512, "512 B"),
        (1023, "1023 B"),
        (1024, "1.0 KB"),
        (700 * 1024, "700.0 KB"),
        (3 * 2**20, "3.0 MB"),
        (5000 * 2**40, "5000.0 TB"),
    ],
)
def test_a_size_has_the_largest_unit_that_it_reaches(count: int, text: str) -> None:
    assert size(count) == text
