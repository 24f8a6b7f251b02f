"""The grammar of the filter of jobs."""

from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import UUID

import pytest

from inturn.states import ENDED, WAITING
from inturn.web.jobs.filter import quote, read_filter

NOW = datetime(2030, 1, 2, 3, 4, 5, tzinfo=UTC)
WORKER = "0198c0de-0000-7000-8000-000000000001"


@pytest.mark.parametrize(
    ("text", "fields"),
    [
        ("", {}),
        ("   ", {}),
        ("task:mail.send", {"task": "mail.send"}),
        ('task:"mail.*"', {"task": "mail.*"}),
        ("queue:default", {"queue": "default"}),
        ("lock:order:4711", {"lock": "order:4711"}),
        ("lock:order:*", {"lock_prefix": "order:"}),
        ('lock:"a b\\"c\\\\ \\u202e"', {"lock": 'a b"c\\ \u202e'}),
        ("lock:it's>5", {"lock": "it's>5"}),
        ("state:failed", {"statuses": ("failed",)}),
        ("state:todo,blocked,todo", {"statuses": ("todo", "blocked")}),
        ("status:failed", {"statuses": ("failed",)}),
        ("error:Timeout", {"error": "Timeout"}),
        ('error:"no money: 17"', {"error": "no money: 17"}),
        ("id:9001", {"id": 9001}),
        ("batch:7 group:customer:7", {"batch": 7, "group": "customer:7"}),
        (f"worker:{WORKER}", {"worker_id": UUID(WORKER)}),
        ("waited>5m", {"before": NOW - timedelta(minutes=5), "statuses": WAITING}),
        ("ended>2d", {"before": NOW - timedelta(days=2), "statuses": ENDED}),
        ("waited>90s state:todo", {"before": NOW - timedelta(seconds=90), "statuses": ("todo",)}),
    ],
)
def test_a_filter_says_which_jobs(text: str, fields: dict[str, Any]) -> None:
    asked = read_filter(text, NOW)
    assert (asked.problems, asked.fields) == ([], fields)
    again = read_filter(asked.text, NOW)
    assert (again.fields, again.text) == (fields, asked.text), "the address says the same"
    assert asked.text.isprintable()


def test_the_beginning_of_a_task_and_a_failure_like_another_are_words_too() -> None:
    asked = read_filter("task:mail.* like:9001", NOW)
    assert (asked.task_prefix, asked.like) == ("mail.", 9001)
    assert asked.statuses == ("failed",)
    assert not asked.can_count


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("Timeout", "is not a filter. Use one of: task:"),
        ("9001", "write id:9001"),
        ("colour:red", "is not a filter"),
        ("task:", "task: needs a value"),
        ("task>5", "Write task:mail.send"),
        ("waited:5m", "Write waited>5m"),
        ("waited>soon", "is not a length of time"),
        ("waited>5", "is not a length of time"),
        ("ended>999999d", "too long ago"),
        ("state:flying", "is not a state. Use one of: todo"),
        ("state:todo,", "is not a state"),
        ("state:todo status:failed", "occurs twice"),
        ("id:x", "is not a number"),
        ("id:9223372036854775808", "is not a number"),
        ("id:٣", "is not a number"),
        ("batch:-1", "is not a number"),
        ("worker:me", "worker id"),
        ('error:"open', "quote"),
        ('error:"a\\d"', "cannot be read"),
        ('error:"\\u0000"', "NUL"),
        ('error:"\\ud800"', "cannot be read"),
        ("task:a task:b", "occurs twice"),
        ("waited>1m ended>1m", "exclude each other"),
        ("waited>5m state:failed", "waited only applies to jobs"),
        ("ended>5m state:todo", "ended only applies to jobs"),
        ("like:1 state:todo", "like only applies to jobs"),
        ("x" * 2001, "longer than"),
        (" ".join(f"queue:{n}" for n in range(30)), "at most 20"),
    ],
)
def test_a_bad_filter_says_what_to_write_instead(text: str, says: str) -> None:
    asked = read_filter(text, NOW)
    assert says in " ".join(asked.problems)
    assert not asked.can_count


def test_a_word_can_be_taken_out_or_replaced() -> None:
    asked = read_filter('task:a state:failed error:"x y"', NOW)
    assert asked.without("error") == "task:a state:failed"
    assert asked.with_state("todo") == 'task:a error:"x y" state:todo'
    assert read_filter("status:failed", NOW).text == "state:failed"
    assert asked.with_state("") == 'task:a error:"x y"'


@pytest.mark.parametrize("value", ["default", 'a "b" \\', "x*", "a\nb", "\u202eevil", "ü", "a:b>c"])
def test_a_quoted_value_means_itself(value: str) -> None:
    asked = read_filter(f"lock:{quote(value)}", NOW)
    assert (asked.problems, asked.fields) == ([], {"lock": value})
