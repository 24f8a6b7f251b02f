"""What proves that a process of this host is dead, and what does not (statement S8)."""

import fcntl
import json
import multiprocessing
import os
import shutil
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import redis

from inturn.locks import LockBackendError, SmartLock
from inturn.locks.files import guard
from inturn.locks.redis import smart
from tests.locks.conftest import Spawn, until

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
    """Return the folder of the guards, as in a process that has made none yet."""
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    monkeypatch.setattr(guard.guards, "made", [])
    folder = tmp_path / f"inturn-locks-{os.geteuid()}"
    folder.mkdir(mode=0o700)
    return folder


def named_in(conn: "redis.Redis") -> str:
    return str(json.loads(str(conn.get(KEY)))["guard"])


def files(folder: Path) -> list[Path]:
    return [path for path in folder.iterdir() if path.name != guard.SWEPT]


def names(folder: Path) -> set[str]:
    return {name_of(path) for path in files(folder)}


def name_of(path: Path) -> str:
    return f"{path.name}-{path.stat().st_ino}"


@pytest.mark.statement("S8")
def test_a_process_has_one_guard_for_all_its_locks(conn: "redis.Redis", folder: Path) -> None:
    with SmartLock(conn, "it"), SmartLock(conn, "other"):
        assert names(folder) == {named_in(conn)}


@pytest.mark.statement("S8")
def test_two_threads_that_take_their_first_lock_at_once_make_one_guard(
    folder: Path, monkeypatch: Any
) -> None:
    """The first one stops while it makes the guard, until the second one waits or is done."""
    first_is_in, go_on = threading.Event(), threading.Event()

    def stopping(_: Path) -> None:
        first_is_in.set()
        go_on.wait(0.5 if threading.current_thread() is second else 20)

    monkeypatch.setattr(guard, "_sweep", stopping)
    made: list[str] = []
    first, second = (
        threading.Thread(target=lambda n=n: made.append(guard.guard_lock(n))) for n in "12"
    )
    first.start()
    assert first_is_in.wait(20)
    second.start()
    second.join(1)
    go_on.set()
    for thread in (first, second):
        thread.join(20)
    assert len(made) == 2
    assert set(made) == names(folder)
    assert len(names(folder)) == 1


@pytest.mark.landing
@pytest.mark.statement("S8")
def test_a_guard_elsewhere_proves_nothing(
    conn: "redis.Redis", socket: str, spawn: Spawn, tmp_path: Path
) -> None:
    holder = spawn(HOLD, socket, env={**os.environ, "TMPDIR": str(tmp_path)})
    assert holder.line() == "True"
    holder.kill()
    assert SmartLock(conn, "it", host="web-1").acquire(timeout=0) is None


@pytest.mark.statement("S8")
def test_a_guard_that_was_tidied_away_is_made_again(
    conn: "redis.Redis", monkeypatch: Any, folder: Path
) -> None:
    monkeypatch.setattr(guard, "LOOK_INTERVAL", 0)
    lock = SmartLock(conn, "it", host="web-1")
    seen = set()
    tidies: list[Callable[[Path], object]] = [
        Path.unlink,
        lambda path: shutil.rmtree(path.parent),
        Path.exists,
    ]
    for tidy in tidies:
        with lock:
            seen.add(named_in(conn))
            assert names(folder) == {named_in(conn)}
        [path] = files(folder)
        tidy(path)
    assert len(seen) == 3


@pytest.mark.statement("S8")
def test_the_next_acquisition_replaces_a_guard_that_a_renewal_found_missing(
    conn: "redis.Redis", monkeypatch: Any, folder: Path
) -> None:
    """A renewal may notice first, but only the next acquisition makes a new guard."""
    with SmartLock(conn, "it", ttl=30) as lease:
        assert lease is not None
        [path] = files(folder)
        path.unlink()
        monkeypatch.setattr(guard.guards.made[-1], "_look_at", 0)
        lease.renew()
        assert files(folder) == []
        with SmartLock(conn, "other"):
            assert len(files(folder)) == 1


@pytest.mark.usefixtures("renewed_soon")
@pytest.mark.parametrize("use", ["acquires", "renews"])
@pytest.mark.statement("S8")
def test_a_guard_in_use_stays_young(
    conn: "redis.Redis", monkeypatch: Any, folder: Path, use: str
) -> None:
    monkeypatch.setattr(guard, "LOOK_INTERVAL", 0)
    with SmartLock(conn, "it"):
        [path] = files(folder)
        os.utime(path, (0, 0))
        if use == "acquires":
            SmartLock(conn, "other").acquire()
        until(lambda: time.time() - path.stat().st_mtime < 3600)
        assert files(folder) == [path]


@pytest.mark.statement("S8")
def test_a_former_guard_that_reappears_proves_nothing_while_its_process_lives(
    conn: "redis.Redis", monkeypatch: Any, folder: Path
) -> None:
    monkeypatch.setattr(guard, "LOOK_INTERVAL", 0)
    with SmartLock(conn, "it", host="web-1"):
        [first] = files(folder)
        first.rename(folder / "away")
        with SmartLock(conn, "other", host="web-1"):
            (folder / "away").rename(first)
            assert len(names(folder)) == 2
            assert SmartLock(conn, "it", host="web-1").acquire(timeout=0) is None


@pytest.mark.statement("S8")
def test_a_copy_of_a_guard_proves_nothing(conn: "redis.Redis", folder: Path) -> None:
    with SmartLock(conn, "it", host="web-1"):
        [path] = files(folder)
        shutil.copy(path, folder / "copy")
        (folder / "copy").replace(path)
        assert SmartLock(conn, "it", host="web-1").acquire(timeout=0) is None


@pytest.mark.statement("S8")
def test_a_guard_that_was_closed_behind_our_back_is_made_again(
    conn: "redis.Redis", folder: Path
) -> None:
    """Some daemons close every open file. Its number may belong to another file by then."""
    with SmartLock(conn, "other"):
        fd = guard.guards.made[-1]._file.fd
        with (folder / "elsewhere").open("w") as other:
            os.dup2(other.fileno(), fd)
        with SmartLock(conn, "it", host="web-1"):
            assert SmartLock(conn, "it", host="web-1").acquire(timeout=0) is None
    guard.guards.made.clear()
    os.close(fd)


@pytest.mark.landing
@pytest.mark.statement("S8")
def test_a_process_that_holds_a_lock_beyond_its_end_leaves_the_proof(
    conn: "redis.Redis", socket: str, spawn: Spawn
) -> None:
    holder = spawn(HOLD, socket)
    assert holder.line() == "True"
    holder.say("end")
    assert holder.process.wait(20) == 0
    assert conn.exists(KEY)
    lease = SmartLock(conn, "it", host="web-1").acquire(timeout=0)
    assert lease is not None
    assert lease.fence == 2


@pytest.mark.landing
@pytest.mark.statement("S8")
def test_the_proof_stays_although_nobody_refers_to_the_lease(
    conn: "redis.Redis", socket: str, spawn: Spawn
) -> None:
    holder = spawn(
        HOLD.replace("print(", "held = lease; lease = None; del held; print(lease is "), socket
    )
    holder.line()
    holder.say("end")
    assert holder.process.wait(20) == 0
    assert conn.exists(KEY)
    assert SmartLock(conn, "it", host="web-1").acquire(timeout=0) is not None


@pytest.mark.landing
@pytest.mark.parametrize("held", ["lease.release()", "lock.acquire(timeout=0)"])
@pytest.mark.statement("S8")
def test_a_process_that_holds_nothing_at_its_end_leaves_nothing(
    conn: "redis.Redis", socket: str, spawn: Spawn, tmp_path: Path, held: str
) -> None:
    code = HOLD.replace("sys.stdin", f"{held}; sys.stdin")
    refused = "acquire" in held
    if refused:
        conn.set(KEY, '{"hostname":"db-7","acquired_at":1,"lock_id":"theirs"}')
    holder = spawn(code, socket, env={**os.environ, "TMPDIR": str(tmp_path)})
    assert holder.line() == str(not refused)
    (folder,) = tmp_path.iterdir()
    assert len(files(folder)) == 1
    holder.say("end")
    assert holder.process.wait(20) == 0
    assert files(folder) == []


@pytest.mark.statement("S8")
def test_a_forked_child_has_a_guard_of_its_own(conn: "redis.Redis", folder: Path) -> None:
    with SmartLock(conn, "other", host="web-1"):
        before = names(folder)

        def child(socket: str, answers: Any) -> None:
            lease = SmartLock(redis.Redis(unix_socket_path=socket), "it", host="web-1").acquire(
                timeout=0
            )
            answers.put(lease is not None)
            time.sleep(60)

        context = multiprocessing.get_context("fork")
        answers = context.Queue()
        process = context.Process(
            target=child, args=(conn.connection_pool.connection_kwargs["path"], answers)
        )
        process.start()
        assert answers.get(timeout=20)
        assert names(folder) == {*before, named_in(conn)}
        assert before != {named_in(conn)}
        assert not guard.is_dead(named_in(conn))
        assert SmartLock(conn, "it", host="web-1").acquire(timeout=0) is None
        process.kill()
        process.join()
        assert SmartLock(conn, "it", host="web-1").acquire(timeout=0)
        # The end of the child did not unlock ours.
        assert not any(guard.is_dead(name) for name in before)


@pytest.mark.parametrize("name", ["", "-", "../secret", "ABCDEF00" * 4, "0" * 31, "0" * 32])
@pytest.mark.statement("S8")
def test_only_a_file_that_was_made_as_a_guard_proves_anything(folder: Path, name: str) -> None:
    for path in (folder.parent / "secret", folder / ("ABCDEF00" * 4)):
        path.touch()
        assert not guard.is_dead(name)
        assert not guard.is_dead(f"{name}-{path.stat().st_ino}")


@pytest.mark.statement("S8")
def test_without_a_folder_nothing_is_proven(
    conn: "redis.Redis", folder: Path, monkeypatch: Any
) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(folder / "none"))
    conn.set(
        KEY,
        json.dumps(
            {"hostname": "web-1", "acquired_at": 1, "lock_id": "theirs", "guard": "0" * 32 + "-7"}
        ),
    )
    assert SmartLock(conn, "it", host="web-1", portable=True).acquire(timeout=0) is None
    with pytest.raises(LockBackendError, match="set TMPDIR"):
        SmartLock(conn, "other").acquire()


@pytest.mark.landing
@pytest.mark.parametrize("mode", [0o720, 0o702, 0o777])
@pytest.mark.statement("S8")
def test_a_folder_that_others_may_write_to_is_refused_and_proves_nothing(
    conn: "redis.Redis", socket: str, spawn: Spawn, tmp_path: Path, monkeypatch: Any, mode: int
) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    monkeypatch.setattr(guard.guards, "made", [])
    holder = spawn(HOLD, socket, env={**os.environ, "TMPDIR": str(tmp_path)})
    assert holder.line() == "True"
    holder.kill()
    (folder,) = tmp_path.iterdir()
    folder.chmod(mode)
    assert not guard.is_dead(named_in(conn))
    with pytest.raises(LockBackendError, match="only this user can write"):
        SmartLock(conn, "other").acquire()
    folder.chmod(0o700)
    assert guard.is_dead(named_in(conn))


@pytest.mark.parametrize(("theirs", "ours"), [("a boot", None), (None, "a boot"), (None, None)])
@pytest.mark.statement("S8")
def test_a_hidden_boot_id_proves_nothing(
    conn: "redis.Redis", monkeypatch: Any, theirs: str | None, ours: str | None
) -> None:
    monkeypatch.setattr(smart, "boot_id", lambda: theirs)
    with SmartLock(conn, "it", host="web-1"):
        monkeypatch.setattr(smart, "boot_id", lambda: ours)
        assert SmartLock(conn, "it", host="web-1").acquire(timeout=0) is None


@pytest.mark.statement("S8")
def test_two_processes_can_look_at_a_dead_guard_at_once(folder: Path) -> None:
    path = folder / ("0" * 32)
    path.touch()
    with path.open() as file:
        fcntl.flock(file, fcntl.LOCK_SH)
        assert guard.is_dead(name_of(path))


@pytest.mark.statement("S8")
def test_a_sweep_removes_old_guards_of_dead_processes_and_no_others(
    conn: "redis.Redis", folder: Path
) -> None:
    living = guard.Guard(folder)
    [its] = files(folder)
    old, young = folder / ("0" * 32), folder / ("1" * 32)
    for path in (old, young):
        path.touch()
    for path in (old, its):
        os.utime(path, (0, 0))
    with SmartLock(conn, "it"):
        assert names(folder) == {name_of(young), living.name, named_in(conn)}


@pytest.mark.statement("S8")
def test_old_guards_are_swept_once_an_hour(conn: "redis.Redis", folder: Path) -> None:
    old, swept = folder / ("0" * 32), folder / guard.SWEPT
    for path in (old, swept):
        path.touch()
    os.utime(old, (0, 0))
    with SmartLock(conn, "it"):
        assert old.exists()
    os.utime(swept, (time.time() - 4000,) * 2)
    guard.guards.made.clear()
    with SmartLock(conn, "it"):
        assert not old.exists()


@pytest.mark.statement("S8")
def test_a_process_that_ends_while_another_sweeps_does_not_disturb_it(
    conn: "redis.Redis", folder: Path, monkeypatch: Any
) -> None:
    paths = [folder / f"{number:032}" for number in range(40)]
    for path in paths:
        path.touch()
        os.utime(path, (0, 0))

    class Time:
        """A clock that is read between listing the files and looking at one of them."""

        monotonic = time.monotonic

        @staticmethod
        def time() -> float:
            for path in paths[::2]:
                path.unlink(missing_ok=True)
            return time.time()

    (folder / guard.SWEPT).touch()
    os.utime(folder / guard.SWEPT, (0, 0))
    listed = Path.iterdir

    def listing(path: Path) -> Iterator[Path]:
        entries = list(listed(path))
        monkeypatch.setattr(guard, "time", Time)
        return iter(entries)

    monkeypatch.setattr(Path, "iterdir", listing)
    with SmartLock(conn, "it"):
        monkeypatch.setattr(Path, "iterdir", listed)
        assert names(folder) == {named_in(conn)}


@pytest.mark.statement("S8")
def test_a_lock_is_taken_although_a_sweep_fails(conn: "redis.Redis", folder: Path) -> None:
    (folder / guard.SWEPT).symlink_to("/nowhere/at/all")
    with SmartLock(conn, "it") as lease:
        assert lease is not None


@pytest.mark.landing
@pytest.mark.statement("S8")
def test_a_forked_childs_end_leaves_the_parents_guard(
    socket: str, spawn: Spawn, tmp_path: Path
) -> None:
    fork = (
        "import os; child = os.fork(); child or sys.exit(); os.waitpid(child, 0); "
        "print('over', flush=True); sys.stdin"
    )
    holder = spawn(
        HOLD.replace("sys.stdin", fork), socket, env={**os.environ, "TMPDIR": str(tmp_path)}
    )
    assert holder.line() == "True"
    assert holder.line() == "over"
    (folder,) = tmp_path.iterdir()
    assert len(files(folder)) == 1
