"""Which workers a notification concerns."""

import pytest

from inturn.worker.listener import concerns


@pytest.mark.parametrize(
    ("payload", "queues", "answer"),
    [
        ("", ["a"], True),
        ("a", None, True),
        ("a,b", ["b"], True),
        ("ab", ["a"], False),
        ("c", ["a", "b"], False),
    ],
)
def test_a_notification_concerns_workers_that_serve_its_queues(
    payload: str, queues: list[str] | None, answer: bool
) -> None:
    assert concerns(payload, queues) is answer
