"""Statement S8 in detail: what proves that a process of this host is dead, and what does not."""

import fcntl
import json
import multiprocessing
import os
import tempfile
import time
from pathlib import Path
from typing import Any

import pytest
import redis

from inturn.locks import SmartLock, guard
from tests.locks.conftest import Spawn

KEY = "inturn:{it}"
HOLD = """
import sys, redis
from inturn.locks import SmartLock
lock = SmartLock(redis.Redis(unix_socket_path=sys.argv[1]), "it", host="web-1", ttl=60)
lease = lock.acquire(timeout=0)
print(lease is not None, flush=True)
sys.stdin.readline()
"""


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: Any) -> Path:
    """Where guards are made meanwhile, as in a process that has made none yet."""
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    monkeypatch.setattr(guard, "_guards", [])
    folder = tmp_path / f"inturn-locks-{os.geteuid()}"
    folder.mkdir(mode=0o700)
    return folder


def named_in(conn: "redis.Redis") -> str:
    return str(json.loads(str(conn.get(KEY)))["guard"])


def names(folder: Path) -> set[str]:
    return {path.name for path in folder.iterdir()}


def test_S8_a_process_has_one_guard_for_all_its_locks(conn: "redis.Redis", folder: Path) -> None:
    with SmartLock(conn, "it"), SmartLock(conn, "other"):
        assert names(folder) == {named_in(conn)}


def test_S8_a_guard_elsewhere_proves_nothing(conn: "redis.Redis", socket: str, spawn: Spawn, tmp_path: Path) -> None:
    holder = spawn(HOLD, socket, env={**os.environ, "TMPDIR": str(tmp_path)})
    assert holder.line() == "True"
    holder.kill()
    assert SmartLock(conn, "it", host="web-1").acquire(timeout=0) is None


def test_S8_a_guard_that_was_tidied_away_is_made_anew(conn: "redis.Redis", monkeypatch: Any, folder: Path) -> None:
    monkeypatch.setattr(guard, "LOOK_INTERVAL", 0)
    lock = SmartLock(conn, "it", host="web-1")
    with lock:
        first = named_in(conn)
    (folder / first).unlink()
    with lock:
        assert names(folder) == {named_in(conn)}
        assert named_in(conn) != first


def test_S8_a_guard_that_is_looked_at_stays_young(conn: "redis.Redis", monkeypatch: Any, folder: Path) -> None:
    monkeypatch.setattr(guard, "LOOK_INTERVAL", 0)
    with SmartLock(conn, "it"):
        pass
    (path,) = folder.iterdir()
    os.utime(path, (0, 0))
    with SmartLock(conn, "it"):
        assert time.time() - path.stat().st_mtime < 3600
        assert names(folder) == {path.name}


def test_S8_a_former_guard_that_reappears_is_no_proof_while_its_process_lives(
    conn: "redis.Redis", monkeypatch: Any, folder: Path
) -> None:
    monkeypatch.setattr(guard, "LOOK_INTERVAL", 0)
    with SmartLock(conn, "it", host="web-1"):
        first = named_in(conn)
        (folder / first).rename(folder / "away")
        with SmartLock(conn, "other", host="web-1"):
            (folder / "away").rename(folder / first)
            assert len(names(folder)) == 2
            assert SmartLock(conn, "it", host="web-1").acquire(timeout=0) is None


def test_S8_what_holds_a_lock_beyond_its_end_leaves_the_proof(conn: "redis.Redis", socket: str, spawn: Spawn) -> None:
    holder = spawn(HOLD, socket)
    assert holder.line() == "True"
    holder.say("end")
    assert holder.process.wait(20) == 0
    assert conn.exists(KEY)
    lease = SmartLock(conn, "it", host="web-1").acquire(timeout=0)
    assert lease is not None
    assert lease.fence == 2


def test_S8_who_holds_nothing_at_its_end_leaves_nothing(socket: str, spawn: Spawn, tmp_path: Path) -> None:
    holder = spawn(
        HOLD.replace("sys.stdin", "lease.release(); sys.stdin"), socket, env={**os.environ, "TMPDIR": str(tmp_path)}
    )
    assert holder.line() == "True"
    (folder,) = tmp_path.iterdir()
    assert len(names(folder)) == 1
    holder.say("end")
    assert holder.process.wait(20) == 0
    assert names(folder) == set()


def test_S8_a_forked_child_has_a_guard_of_its_own(conn: "redis.Redis", folder: Path) -> None:
    with SmartLock(conn, "other", host="web-1"):
        before = names(folder)

        def child(socket: str, answers: Any) -> None:
            lease = SmartLock(redis.Redis(unix_socket_path=socket), "it", host="web-1").acquire(timeout=0)
            answers.put(lease is not None)
            time.sleep(60)

        context = multiprocessing.get_context("fork")
        answers = context.Queue()
        process = context.Process(target=child, args=(conn.connection_pool.connection_kwargs["path"], answers))
        process.start()
        assert answers.get(timeout=20)
        assert names(folder) == {*before, named_in(conn)}
        assert before != {named_in(conn)}
        assert not guard.is_dead(named_in(conn))
        assert SmartLock(conn, "it", host="web-1").acquire(timeout=0) is None
        process.kill()
        process.join()
        assert SmartLock(conn, "it", host="web-1").acquire(timeout=0)
        assert not any(guard.is_dead(name) for name in before)  # and ours is not unlocked by its end


@pytest.mark.parametrize("name", ["", "-", "../secret", "ABCDEF00" * 4, "0" * 31, "0" * 32 + "\n", "0" * 32])
def test_S8_only_a_file_that_was_made_as_a_guard_proves_anything(folder: Path, name: str) -> None:
    (folder.parent / "secret").touch()
    (folder / ("ABCDEF00" * 4)).touch()
    assert not guard.is_dead(name)


def test_S8_two_who_look_at_a_dead_guard_do_not_hinder_each_other(folder: Path) -> None:
    name = "0" * 32
    (folder / name).touch()
    with (folder / name).open() as file:
        fcntl.flock(file, fcntl.LOCK_SH)
        assert guard.is_dead(name)


def test_S8_old_guards_of_the_dead_are_swept_those_of_the_living_stay(conn: "redis.Redis", folder: Path) -> None:
    living = guard.Guard(folder)
    old, young = folder / ("0" * 32), folder / ("1" * 32)
    for path in (old, young, folder / living.name):
        path.touch()
    for path in (old, folder / living.name):
        os.utime(path, (0, 0))
    with SmartLock(conn, "it"):
        assert names(folder) == {young.name, living.name, named_in(conn)}
    living.remove()
