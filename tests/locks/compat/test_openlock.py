"""Our FileLock beside the library that it replaces, on the same files (statements O and OD)."""

import contextlib
import fcntl
import multiprocessing
import os
import signal
import subprocess
import sys
import threading
import time
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import openlock as theirs
import pytest

import inturn.locks.compat.openlock as ours
from inturn.locks import LockBackendError
from inturn.locks.compat.lockfile import foreign_holder_lives, parse_record
from tests.locks.conftest import Spawn, in_threads, until
from tests.locks.odd import is_untouched, make_odd_path

OTHER = {ours: theirs, theirs: ours}
BOTH = pytest.mark.parametrize("module", [theirs, ours], ids=["openlock", "ours"])

# A script, because openlock recognises a holder by the name of its script.
SCRIPT = """
import sys
library, path, how = sys.argv[1:4]
if library == "openlock":
    import openlock as module
else:
    import inturn.locks.compat.openlock as module
lock = module.FileLock(path)
lock.acquire(timeout=20)
print("acquired", flush=True)
sys.stdin.readline()
if how == "release":
    lock.release()
    print("released", flush=True)
    sys.stdin.readline()
"""


@pytest.fixture
def script(tmp_path: Path) -> list[str]:
    file = tmp_path / "holder_script.py"
    file.write_text(SCRIPT)
    return [sys.executable, str(file)]


@pytest.fixture(autouse=True)
def defaults(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    # openlock reads what `ps` prints, which is cut off at the terminal's width (OD1).
    monkeypatch.setenv("COLUMNS", "5000")
    before = ours.get_defaults(), theirs.get_defaults()
    yield
    ours.set_defaults(**before[0])
    theirs.set_defaults(**before[1])


def is_unlocked(guard: Path) -> bool:
    with guard.open("rb") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
    return True


def dead_pid() -> int:
    process = subprocess.Popen(["true"])
    process.wait()
    return process.pid


# ---------------------------------------------------------------- the contract


@BOTH
@pytest.mark.statement("O1")
def test_constructor(module: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    lock = module.FileLock()
    assert str(lock.lock_file) == "openlock.lock"
    assert lock.timeout is None
    with lock:
        assert (tmp_path / "openlock.lock").exists()
    assert module.FileLock("x", 3).timeout == 3
    assert str(module.FileLock("x")) == "FileLock('x')"


@BOTH
@pytest.mark.statement("O2")
def test_context_manager(module: Any, path: Path) -> None:
    with module.FileLock(str(path)) as lock:
        assert isinstance(lock, module.FileLock)
        assert lock.locked()
    assert not path.exists()


@pytest.mark.statement("O3")
def test_acquire_waits_then_raises_timeout_and_0_is_one_try(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with ours.FileLock(str(path)):
        with monkeypatch.context() as patch, pytest.raises(ours.Timeout):
            patch.setattr(time, "sleep", lambda _: pytest.fail("it paused"))
            ours.FileLock(str(path)).acquire(timeout=0)
        began = time.monotonic()
        with pytest.raises(ours.Timeout):
            ours.FileLock(str(path), timeout=0.2).acquire()
        assert 0.2 <= time.monotonic() - began < 10


@BOTH
@pytest.mark.statement("O4")
def test_a_release_of_somebody_elses_lock_is_refused(module: Any, path: Path) -> None:
    with pytest.raises(module.InvalidRelease):
        module.FileLock(str(path)).release()
    lock = module.FileLock(str(path))
    lock.acquire()
    with pytest.raises(module.InvalidRelease):
        module.FileLock(str(path)).release()
    lock.release()
    with pytest.raises(module.InvalidRelease):
        lock.release()


@pytest.mark.parametrize("library", ["openlock", "ours"])
@pytest.mark.statement("O5", "O6")
def test_locked_and_getpid_by_any_process(
    path: Path, script: list[str], spawn: Spawn, library: str
) -> None:
    lock = ours.FileLock(str(path))
    assert not lock.locked()
    assert lock.getpid() is None
    holder = spawn("", library, path, "exit", command=script)
    holder.line()
    assert lock.locked()
    assert lock.getpid() == holder.pid
    # openlock recognises the holder of our file as it does its own.
    assert theirs.FileLock(str(path)).getpid() == holder.pid


@BOTH
@pytest.mark.statement("O7")
def test_attributes(module: Any, path: Path) -> None:
    lock = module.FileLock(str(path), timeout=5)
    assert lock.lock_file == path
    assert isinstance(lock.lock_file, Path)
    assert lock.timeout == 5


@BOTH
@pytest.mark.statement("O8")
def test_defaults(module: Any, path: Path) -> None:
    assert module.get_defaults() == {"tries": 2, "retry_period": 0.3, "race_delay": 0.2}
    module.get_defaults()["tries"] = 9
    assert module.get_defaults()["tries"] == 2
    with pytest.raises(module.InvalidOption, match="nonsense"):
        module.set_defaults(nonsense=1)
    early = module.FileLock(str(path))
    module.set_defaults(race_delay=30)
    path.write_text("no lock file")
    began = time.monotonic()
    early.acquire()
    assert time.monotonic() - began < 20  # the default at the time when the lock was made
    early.release()


@BOTH
@pytest.mark.statement("O9")
def test_the_file_says_pid_and_name(module: Any, path: Path) -> None:
    with module.FileLock(str(path)):
        lines = path.read_text().splitlines()
    assert lines[0] == str(os.getpid())
    assert len(lines) >= 2


@pytest.mark.landing
@pytest.mark.statement("O9")
def test_the_name_is_that_of_the_script(path: Path, script: list[str], spawn: Spawn) -> None:
    names = []
    for library in ("openlock", "ours"):
        holder = spawn("", library, path, "release", command=script)
        holder.line()
        names.append(path.read_text().splitlines()[1])
        holder.say("")
        holder.line()
    assert names == ["holder_script", "holder_script"]


def stale_records() -> dict[str, str]:
    return {
        "a dead process": f"{dead_pid()}\nholder_script\n",
        "no number": "x\nholder_script\n",
        "one line": f"{os.getpid()}\n",
        "empty": "",
        "no Python": "1\nno-such-name\n",
        "another name": f"{os.getpid()}\nno-such-name-anywhere\n",
        "a huge number": f"{10**30}\nx\n",
        "a negative number": "-5\nx\n",
    }


@pytest.mark.parametrize("what", stale_records())
@pytest.mark.statement("O10")
def test_a_lock_is_stale_if_no_python_process_of_that_name_runs(path: Path, what: str) -> None:
    path.write_text(stale_records()[what])
    for module in (ours, theirs):
        if module is theirs and what in ("a huge number", "a negative number"):
            continue  # `ps` has its own error for them
        assert not module.FileLock(str(path)).locked()
    with ours.FileLock(str(path), timeout=0) as lock:
        assert lock.getpid() == os.getpid()


@pytest.mark.landing
@pytest.mark.statement("O11")
def test_creation_is_atomic(path: Path) -> None:
    """A lock file is never visible without its contents."""
    sightings: list[int] = []
    is_over = threading.Event()

    def watch() -> None:
        try:
            while len(sightings) < 100:
                with contextlib.suppress(FileNotFoundError):
                    record = parse_record(path.read_bytes())
                    assert record is not None
                    assert record.lock_id
                    sightings.append(record.pid)
        finally:
            is_over.set()

    def hold() -> None:
        while not is_over.is_set():  # at once, or the watch would hardly ever see the file
            with ours.FileLock(str(path)):
                pass

    in_threads(watch, hold)
    assert set(sightings) == {os.getpid()}
    # Nothing else is left.
    assert sorted(entry.name for entry in path.parent.iterdir()) == [".it.lock.guard"]


@pytest.mark.statement("O12")
def test_a_valid_one_is_retried_every_retry_period(
    path: Path, script: list[str], spawn: Spawn
) -> None:
    ours.set_defaults(retry_period=0.15)

    def time_one() -> float:
        holder = spawn("", "openlock", path, "release", command=script)
        holder.line()
        lock = ours.FileLock(str(path))

        def release() -> float:
            time.sleep(0.2)
            holder.say("")
            assert holder.line() == "released"
            return time.monotonic()

        def wait() -> float:
            lock.acquire(timeout=20)
            return time.monotonic()

        released, acquired = in_threads(release, wait)
        lock.release()
        return float(acquired - released)

    assert any(time_one() < 0.15 + 1.0 for _ in range(3))  # the machine may stall


@pytest.mark.statement("O13")
def test_an_invalid_one_is_overwritten_and_confirmed_after_race_delay(path: Path) -> None:
    path.write_text("no lock file")
    began = time.monotonic()
    with ours.FileLock(str(path)):
        assert time.monotonic() - began >= 0.2


@pytest.mark.statement("O13")
def test_after_tries_it_gives_up(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path.write_text("no lock file")

    def spoil(_: float) -> None:  # while it waits before it confirms its file
        other = path.with_suffix(".spoiler")
        other.write_text("no lock file")
        other.replace(path)

    monkeypatch.setattr(time, "sleep", spoil)
    with pytest.raises(ours.InvalidLockFile):
        ours.FileLock(str(path)).acquire(timeout=5)


@pytest.mark.parametrize("library", ["openlock", "ours"])
@pytest.mark.statement("O14")
def test_a_normal_exit_removes_the_file(
    path: Path, script: list[str], spawn: Spawn, library: str
) -> None:
    holder = spawn("", library, path, "exit", command=script)
    holder.line()
    assert path.exists()
    holder.say("")
    assert holder.process.wait(20) == 0
    assert not path.exists()


@BOTH
@pytest.mark.statement("O15")
def test_release_deletes_the_file(module: Any, path: Path) -> None:
    lock = module.FileLock(str(path))
    lock.acquire()
    assert path.exists()
    lock.release()
    assert not path.exists()


@pytest.mark.statement("O16")
def test_no_delay_when_no_invalid_file_exists(path: Path) -> None:
    ours.set_defaults(race_delay=30)
    began = time.monotonic()
    with ours.FileLock(str(path)):
        pass
    assert time.monotonic() - began < 20


@BOTH
@pytest.mark.statement("O17")
def test_a_slow_system_warns(module: Any, path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path.write_text("no lock file")
    module.set_defaults(race_delay=0)
    slow = module.FileLock(str(path))
    with pytest.warns(UserWarning, match="(?i)slow system"):
        slow.acquire()
    assert slow.getpid() == os.getpid()  # it is only a warning
    path.unlink()
    module.set_defaults(race_delay=60)
    path.write_text("no lock file")
    lock = module.FileLock(str(path))
    monkeypatch.setattr(time, "sleep", lambda _: None)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        lock.acquire()
    assert lock.getpid() == os.getpid()


@pytest.mark.statement("O18")
def test_a_slow_process_does_not_break_exclusion(
    path: Path, script: list[str], spawn: Spawn
) -> None:
    """A process that is stopped for long in the middle of a take-over does not hold the lock."""
    path.write_text(f"{dead_pid()}\nholder_script\n")
    guard = path.with_name(".it.lock.guard")
    slow = spawn("", "ours", path, "exit", command=script)
    # Stop it between writing its file and confirming it, when it no longer holds the guard.
    until(lambda: path.read_text().startswith(f"{slow.pid}\n") and is_unlocked(guard))
    os.kill(slow.pid, signal.SIGSTOP)
    path.unlink()  # an operator frees the lock, and another process takes it
    with ours.FileLock(str(path), timeout=10):
        os.kill(slow.pid, signal.SIGCONT)
        assert ours.FileLock(str(path)).getpid() == os.getpid()
        time.sleep(0.5)  # enough time for it to confirm
        assert path.read_text().startswith(f"{os.getpid()}\n")


@pytest.mark.statement("O19")
def test_a_reused_pid_does_not_hide_staleness(path: Path, script: list[str], spawn: Spawn) -> None:
    runs_now = spawn("", "openlock", path.with_suffix(".other"), "exit", command=script)
    runs_now.line()
    path.write_text(f"{runs_now.pid}\nholder_script\n")
    os.utime(path, (time.time() - 3600, time.time() - 3600))  # written before that process started
    assert theirs.FileLock(str(path)).locked()  # the defect
    assert not ours.FileLock(str(path)).locked()
    with ours.FileLock(str(path), timeout=20):
        pass
    record = parse_record(f"{os.getpid()}\n{Path(sys.argv[0]).stem}\n".encode())
    assert record is not None
    assert not foreign_holder_lives(record, 0.0)  # from before the machine was started


@pytest.mark.statement("O19")
def test_a_reused_pid_does_not_hide_that_ours_is_dead(path: Path) -> None:
    # Our own process id, but the inode is not locked.
    path.write_text(f"{os.getpid()}\npython\ninturn {'0' * 32}\n")
    assert not ours.FileLock(str(path)).locked()
    with ours.FileLock(str(path), timeout=0):
        pass


@pytest.mark.parametrize(
    ("holder", "waiter"), [("openlock", ours), ("ours", theirs)], ids=["theirs", "ours"]
)
@pytest.mark.statement("O20")
def test_peers_respect_each_others_files(
    path: Path, script: list[str], spawn: Spawn, holder: str, waiter: Any
) -> None:
    process = spawn("", holder, path, "release", command=script)
    process.line()
    with pytest.raises(waiter.Timeout):
        waiter.FileLock(str(path)).acquire(timeout=0.1)
    assert waiter.FileLock(str(path)).getpid() == process.pid
    process.say("")
    assert process.line() == "released"
    lock = waiter.FileLock(str(path))
    lock.acquire(timeout=20)
    assert OTHER[waiter].FileLock(str(path)).getpid() == os.getpid()
    lock.release()


@pytest.mark.parametrize(
    ("holder", "waiter"), [("openlock", ours), ("ours", theirs)], ids=["theirs", "ours"]
)
@pytest.mark.statement("O20")
def test_peers_take_over_from_each_others_dead(
    path: Path, script: list[str], spawn: Spawn, holder: str, waiter: Any
) -> None:
    process = spawn("", holder, path, "exit", command=script)
    process.line()
    process.kill()
    lock = waiter.FileLock(str(path))
    lock.acquire(timeout=10)
    assert OTHER[waiter].FileLock(str(path)).getpid() == os.getpid()
    lock.release()
    assert not path.exists()


@pytest.mark.statement("O20")
def test_removing_the_file_by_hand_frees_the_lock(
    path: Path, script: list[str], spawn: Spawn
) -> None:
    spawn("", "ours", path, "exit", command=script).line()
    path.unlink()
    assert not ours.FileLock(str(path)).locked()
    with ours.FileLock(str(path), timeout=0) as lock:
        assert lock.getpid() == os.getpid()


# ---------------------------------------------------------------- taking over


@pytest.mark.landing
def test_takeover_after_sigkill_is_quick(path: Path, script: list[str], spawn: Spawn) -> None:
    times = []
    for _ in range(5):
        holder = spawn("", "ours", path, "exit", command=script)
        holder.line()
        lock = ours.FileLock(str(path))
        waiting = threading.Event()

        def wait(lock: Any = lock, waiting: Any = waiting) -> float:
            waiting.set()
            lock.acquire(timeout=20)
            return time.monotonic()

        def kill(holder: Any = holder, waiting: Any = waiting) -> float:
            waiting.wait()
            holder.kill()
            return time.monotonic()

        got, killed = in_threads(wait, kill)
        times.append(got - killed)
        lock.release()
    assert min(times) < 0.2  # pauses are 50 ms at most


# ---------------------------------------------------------------- the defects of openlock


@pytest.mark.landing
@pytest.mark.statement("OD1")
def test_a_narrow_terminal_and_a_long_path_do_not_make_two_holders(
    tmp_path: Path, spawn: Spawn
) -> None:
    folder = tmp_path / ("long" * 20)
    folder.mkdir()
    file = folder / "holder_script.py"
    file.write_text(SCRIPT)
    path = tmp_path / "it.lock"
    spawn("", "openlock", path, "exit", command=[sys.executable, str(file)]).line()
    ask = "import sys, {} as m; print(m.FileLock(sys.argv[1]).locked())"
    answers = [
        spawn(ask.format(how), path, env={**os.environ, "COLUMNS": "80"}).line()
        for how in ("openlock", "inturn.locks.compat.openlock")
    ]
    assert answers == ["False", "True"]  # the defect, and ours without it


@pytest.mark.landing
@pytest.mark.statement("OD2")
def test_an_interpreter_of_another_name_does_not_make_two_holders(
    tmp_path: Path, path: Path, script: list[str], spawn: Spawn
) -> None:
    # As in a program with a built-in Python: neither its name nor its arguments say so.
    environment = {
        **os.environ,
        "PYTHONPATH": os.pathsep.join(entry for entry in sys.path if entry),
    }
    for library in ("openlock", "ours"):
        holder = spawn(
            "",
            library,
            path.name,
            "release",
            command=["snake", Path(script[1]).name],
            executable=os.path.realpath(sys.executable),
            env=environment,
            cwd=tmp_path,
        )
        assert holder.line() == "acquired"
        assert not theirs.FileLock(str(path)).locked()  # the defect
        assert ours.FileLock(str(path)).locked()
        holder.say("")
        assert holder.line() == "released"


@pytest.mark.landing
@pytest.mark.statement("OD3")
def test_without_ps_it_does_not_crash(
    path: Path, script: list[str], spawn: Spawn, tmp_path: Path
) -> None:
    spawn("", "openlock", path, "exit", command=script).line()
    ask = """
import sys, {} as m
try: print(m.FileLock(sys.argv[1]).locked())
except OSError: print("crash")
"""
    answers = [
        spawn(ask.format(how), path, env={**os.environ, "PATH": str(tmp_path)}).line()
        for how in ("openlock", "inturn.locks.compat.openlock")
    ]
    assert answers == ["crash", "True"]


@pytest.mark.parametrize(
    "record", ["no lock file", "1\nno-such-name\n", "999999999\nx\ninturn 00\n"]
)
@pytest.mark.statement("OD4")
def test_several_threads_that_judge_it_stale_do_not_become_two_holders(
    path: Path, record: str
) -> None:
    for _ in range(2):
        path.write_text(record)
        barrier, is_held = threading.Barrier(8), threading.Event()

        def take(barrier: threading.Barrier = barrier, is_held: Any = is_held) -> Any:
            lock = ours.FileLock(str(path))
            barrier.wait()
            while True:
                try:
                    lock.acquire(timeout=0.5)
                except ours.Timeout:
                    if is_held.is_set():
                        return None
                else:
                    is_held.set()
                    return lock

        holders = [lock for lock in in_threads(*[take] * 8) if lock]
        assert len(holders) == 1
        holders[0].release()


@pytest.mark.statement("OD5")
def test_release_does_not_block_while_another_thread_waits(path: Path) -> None:
    lock = ours.FileLock(str(path))
    lock.acquire()
    waiting = threading.Event()

    def wait() -> bool:
        waiting.set()
        lock.acquire(timeout=20)
        got = lock.locked()
        lock.release()
        return got

    def release() -> float:
        waiting.wait()
        time.sleep(0.1)
        began = time.monotonic()
        lock.release()
        return time.monotonic() - began

    got, took = in_threads(wait, release)
    assert got
    assert took < 15  # less than the waiter would wait
    assert not path.exists()


@BOTH
@pytest.mark.statement("OD6")
def test_a_forked_childs_exit_leaves_the_parents_file(module: Any, path: Path) -> None:
    code = f"""
import os, sys
import {module.__name__} as module
lock = module.FileLock({str(path)!r})
lock.acquire()
pid = os.fork()
if pid == 0:
    sys.exit(0)  # a normal exit, which runs the handlers
os.waitpid(pid, 0)
print(os.path.exists({str(path)!r}), flush=True)
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == str(module is ours)  # with openlock: the defect


@pytest.mark.statement("OD6")
def test_a_forked_child_does_not_keep_the_lock_of_a_dead_parent(path: Path) -> None:
    context = multiprocessing.get_context("fork")
    ready, over = context.Event(), context.Event()

    def parent() -> None:
        ours.FileLock(str(path)).acquire()

        def child() -> None:
            ready.set()
            over.wait(30)

        context.Process(target=child, daemon=False).start()
        ready.wait()
        os.kill(os.getpid(), signal.SIGKILL)

    process = context.Process(target=parent)
    process.start()
    process.join()
    assert path.exists()
    try:
        with ours.FileLock(str(path), timeout=20) as lock:
            assert lock.getpid() == os.getpid()
    finally:
        over.set()


@BOTH
@pytest.mark.statement("OD7")
def test_release_leaves_a_successors_file(module: Any, path: Path) -> None:
    lock = module.FileLock(str(path))
    lock.acquire()
    path.unlink()  # by hand
    path.write_text("1\nsuccessor\n")
    if module is ours:
        with pytest.raises(ours.InvalidRelease):
            lock.release()
    else:
        lock.release()
    assert path.exists() is (module is ours)


# ---------------------------------------------------------------- paths that are not lock files


@pytest.mark.parametrize("kind", ["folder", "fifo", "link", "dangling link", "long", "socket"])
@pytest.mark.statement("X45")
def test_paths_that_are_not_regular_files_are_refused(tmp_path: Path, kind: str) -> None:
    path = make_odd_path(tmp_path, kind)
    with pytest.raises((LockBackendError, OSError)) as caught:
        ours.FileLock(str(path)).acquire(timeout=0)
    assert any(
        reason in str(caught.value)
        for reason in ("not a regular file", "symbolic link", "folder", "too long")
    )
    assert is_untouched(path)


def test_the_surface_is_that_of_openlock() -> None:
    assert {name for name in dir(theirs) if not name.startswith("_") and name != "openlock"} - {
        "sys"
    } <= set(dir(ours))
    for name in ("Timeout", "InvalidRelease", "InvalidLockFile", "InvalidOption"):
        assert issubclass(getattr(ours, name), ours.OpenLockException)
