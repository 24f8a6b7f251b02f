"""What a forked child forgets."""

import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

from inturn.locks.core.process import process
from inturn.locks.core.watchdog import watchdog
from inturn.locks.files import guard
from inturn.locks.files.open_file import open_lock_file


def in_child(ask: Callable[[], Any], before: Callable[[], None] = lambda: None) -> Any:
    """Run `before` right before a fork. Return what `ask` returns in the child."""
    reading, writing = os.pipe()
    before()
    child = os.fork()
    if child == 0:
        try:
            os.write(writing, json.dumps(ask()).encode())
        finally:
            os._exit(0)
    os.close(writing)
    os.waitpid(child, 0)
    with os.fdopen(reading) as answer:
        return json.loads(answer.read())


def test_a_forked_child_has_its_own_id_and_no_guards_or_threads() -> None:
    timer = watchdog.timer
    guard.guard_lock("it")
    try:
        assert (
            in_child(
                lambda: [
                    process.pid == os.getpid(),
                    guard.guards.made == [],
                    guard.guards.lock_ids == set(),
                    watchdog.timer is not timer,
                ]
            )
            == [True] * 4
        )
        assert guard.guards.made
        assert watchdog.timer is timer
    finally:
        guard.forget_lock("it")


def test_a_forked_child_forgets_every_file_although_some_were_closed(tmp_path: Path) -> None:
    files = [open_lock_file(tmp_path / f"{number}.lock") for number in range(20)]
    guard.guard_lock("it")

    def close_some() -> None:
        for file in files[::2]:
            os.close(file.fd)

    try:
        forgotten = in_child(
            lambda: [[file.fd for file in files], len(guard.guards.made)], close_some
        )
        assert forgotten == [[-1] * 20, 0]
    finally:
        guard.forget_lock("it")
        for file in files[::2]:
            file.fd = -1
        for file in files:
            file.close()
