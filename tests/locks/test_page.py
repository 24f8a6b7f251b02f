"""The example of docs/locks.md for a lock in your own code runs."""

import re
from pathlib import Path

import redis

from inturn.locks import SmartLock

PAGE = (Path(__file__).parents[2] / "docs" / "locks.md").read_text(encoding="utf-8")


def test_the_example_of_the_page_runs_under_the_lock(conn: "redis.Redis") -> None:
    (example,) = re.findall(r"^```python\n(with .*?)^```", PAGE, re.MULTILINE | re.DOTALL)
    fences: list[int] = []
    names = {"SmartLock": SmartLock, "redis": conn, "write": lambda fence: fences.append(fence)}
    exec(example, names)  # noqa: S102 (our own page)
    exec(example, names)  # noqa: S102
    assert fences == sorted(set(fences)), "it was free again, and the fence has risen"
    assert len(fences) == 2
