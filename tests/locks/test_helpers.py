"""The decorator, several locks at once, addresses, the command line, and what importing needs."""

import asyncio
import json
import re
import subprocess
import sys
import time
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest
import redis
from click.testing import Result

import inturn.locks
from inturn.locks import (
    AsyncKernelFileLock,
    AsyncPgLock,
    AsyncSmartLock,
    KernelFileLock,
    LockDeadlock,
    LockError,
    LockTimeout,
    PgLock,
    SmartLock,
    install,
    lock_all,
    lock_from_url,
    locked,
)
from tests.cli.in_process import invoke
from tests.locks.conftest import Async, Spawn, in_threads

# ---------------------------------------------------------------- @locked


@pytest.fixture
def using(client: "redis.Redis") -> Any:
    return lambda name: SmartLock(client, name)


def test_locked_skips_waits_raises_or_proceeds_while_busy(using: Any) -> None:
    ran: list[str] = []

    def of(on_busy: Any, timeout: float | None = None) -> Any:
        @locked("it", using=using, on_busy=on_busy, timeout=timeout)
        def run() -> str:
            ran.append(on_busy)
            return "done"

        return run

    with using("it"):
        assert of("skip")() is None
        with pytest.raises(LockTimeout):
            of("raise")()
        with pytest.raises(LockTimeout):
            of("wait", 0.05)()
        assert ran == []
        assert of("proceed")() == "done"
        assert using("it").locked()
    assert [of(how)() for how in ("skip", "raise", "wait", "proceed")] == ["done"] * 4
    assert not using("it").locked()
    with pytest.raises(ValueError, match="on_busy"):
        of("hope")


def test_locked_names_the_lock_by_the_bound_arguments(using: Any) -> None:
    @locked("filter:{filter_id}", using=using, on_busy="raise")
    def run(filter_id: int, deep: bool = False) -> str:
        """Runs."""
        if deep:
            run(filter_id + 1)
            with pytest.raises(LockTimeout):
                run(filter_id)
        return f"{filter_id}"

    assert run(1, deep=True) == "1"
    assert run.__doc__ == "Runs."
    assert run.__name__ == "run"
    with pytest.raises(TypeError):
        run()  # type: ignore[call-arg]


def test_locked_async(with_async: Async) -> None:
    async def body(client: Any) -> None:
        inside = most = 0

        @locked("it:{n}", using=lambda name: AsyncSmartLock(client, name))
        async def run(n: int) -> int:
            nonlocal inside, most
            inside += 1
            most = max(most, inside)
            await asyncio.sleep(0.01)
            inside -= 1
            return n

        assert await asyncio.gather(*[run(1) for _ in range(5)]) == [1] * 5
        assert most == 1

    with_async(body)


def test_locked_takes_its_store_from_the_environment(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    @locked("filter:{n}", on_busy="skip")
    def run(n: int) -> bool:
        return KernelFileLock(tmp_path / f"filter:{n}").locked()

    with pytest.raises(LockError, match="INTURN_LOCKS_URL"):
        run(1)
    monkeypatch.setenv("INTURN_LOCKS_URL", f"file://{tmp_path}")
    assert run(1)
    assert locked("other", using=f"file://{tmp_path}")(lambda: (tmp_path / "other").exists())()


# ---------------------------------------------------------------- lock_all


def test_lock_all_is_sorted_so_that_opposite_orders_do_not_deadlock(client: "redis.Redis") -> None:
    def use(names: list[str]) -> None:
        for _ in range(20):
            with lock_all([SmartLock(client, name) for name in names], timeout=25) as leases:
                assert [lease.name for lease in leases] == names

    in_threads(lambda: use(["a", "b", "c"]), lambda: use(["c", "b", "a"]))


def test_lock_all_takes_all_or_nothing_within_one_deadline(client: "redis.Redis") -> None:
    with SmartLock(client, "c", host="another"):
        began = time.monotonic()
        with pytest.raises(LockTimeout, match="'c'"), lock_all([SmartLock(client, n) for n in "abc"], timeout=0.2):
            pytest.fail("it ran")
        assert 0.2 <= time.monotonic() - began < 2
        assert not SmartLock(client, "a").locked()
        assert not SmartLock(client, "b").locked()


def test_lock_all_refuses_one_lock_twice(client: "redis.Redis") -> None:
    with pytest.raises(LockDeadlock):
        lock_all([SmartLock(client, "a"), SmartLock(client, "b"), SmartLock(client, "a")])


def test_lock_all_async(with_async: Async) -> None:
    async def body(client: Any) -> None:
        async with lock_all([AsyncSmartLock(client, name) for name in "ba"]) as leases:
            assert [lease.name for lease in leases] == ["b", "a"]
            with pytest.raises(LockTimeout):
                async with lock_all([AsyncSmartLock(client, name) for name in "za"], timeout=0.05):
                    pytest.fail("it ran")
            assert not await AsyncSmartLock(client, "z").locked()
        assert not await AsyncSmartLock(client, "a").locked()

    with_async(body)


# ---------------------------------------------------------------- addresses


def test_addresses_make_the_lock_of_their_store(socket: str, tmp_path: Path) -> None:
    cases: list[tuple[str, Any, Any, str]] = [
        (f"unix://{socket}#it", SmartLock, AsyncSmartLock, "it"),
        ("redis://localhost:1/0#a%20b", SmartLock, AsyncSmartLock, "a b"),
        (f"file://{tmp_path}/it.lock", KernelFileLock, AsyncKernelFileLock, f"{tmp_path}/it.lock"),
        (f"file://{tmp_path}#a/b", KernelFileLock, AsyncKernelFileLock, f"{tmp_path}/a_b"),
        ("postgresql://host/db#it", PgLock, AsyncPgLock, "it"),
    ]
    for url, kind, async_kind, name in cases:
        assert type(lock_from_url(url)) is kind
        assert type(lock_from_url(url, asynchronous=True)) is async_kind
        assert lock_from_url(url).name == name
    assert lock_from_url("redis://localhost#it", ttl=5).terms.ttl == 5


@pytest.mark.parametrize("url", ["redis://localhost/0", "postgresql://host/db", "ftp://host#it", "it", ""])
def test_addresses_of_nothing_are_refused(url: str) -> None:
    with pytest.raises(ValueError, match=r"#name|a name"):
        lock_from_url(url)


# ---------------------------------------------------------------- the command line


def queue_locks(*arguments: str, **options: Any) -> Result:
    return invoke("locks", *arguments, **options)


@pytest.fixture(params=["redis", "file", "postgresql"])
def address(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    if request.param == "redis":
        return f"unix://{request.getfixturevalue('socket')}#it"
    if request.param == "file":
        return f"file://{tmp_path}/it.lock"
    dsn = request.getfixturevalue("empty_dsn")
    install(dsn)
    return f"{url_of(dsn)}#it"


def url_of(dsn: str) -> str:
    from psycopg.conninfo import conninfo_to_dict

    parts = {key: str(value) for key, value in conninfo_to_dict(dsn).items()}
    name = parts.pop("dbname")
    return f"postgresql:///{name}?" + "&".join(f"{key}={quote(value, safe='')}" for key, value in parts.items())


def test_cli_shows_waits_for_and_runs(address: str) -> None:
    assert queue_locks("show", address).exit_code == 3
    assert queue_locks("wait", address, "--timeout", "0").exit_code == 0
    with lock_from_url(address) as lease:
        assert lease is not None
        shown = queue_locks("show", address, "-o", "json")
        assert shown.exit_code == 0
        assert json.loads(shown.stdout)["name"]
        assert queue_locks("wait", address, "--timeout", "0.05").exit_code == 4
        assert queue_locks("run", "--timeout", "0", address, "--", "true").exit_code == 4
    assert queue_locks("run", "--timeout", "0", address, "--", "sh", "-c", "exit 7").exit_code == 7
    assert queue_locks("show", address).exit_code == 3


def test_cli_lists(address: str, empty_dsn: str) -> None:
    store = address.partition("#")[0].removesuffix("/it.lock")
    assert "No lock" in queue_locks("list", store).output
    more: Any = {"mode": "table"} if store.startswith("postgresql") else {}
    with lock_from_url(address, **more):
        listed = json.loads(queue_locks("list", store, "-o", "json").stdout)
        assert len(listed) == 1
        assert listed[0]["name"].endswith(("it", "it.lock"))
        assert "OWNER" in queue_locks("list", store).stdout


def test_cli_breaks_only_when_told(socket: str) -> None:
    address = f"unix://{socket}#it"
    assert queue_locks("break", address, "--yes").exit_code == 3
    lease = lock_from_url(address).acquire()
    assert queue_locks("break", address).exit_code == 2  # nobody is there to confirm
    assert queue_locks("break", address, "--dry-run").exit_code == 0
    assert lock_from_url(address).locked()
    assert queue_locks("break", address, "--yes").exit_code == 0
    assert not lock_from_url(address).locked()
    assert lease is not None


def test_cli_a_kernel_lock_cannot_be_broken(tmp_path: Path) -> None:
    address = f"file://{tmp_path}/it.lock"
    with lock_from_url(address):
        done = queue_locks("break", address, "--yes")
        assert done.exit_code == 2
        assert "end that process" in done.output


def test_cli_an_unreachable_store_is_69(tmp_path: Path) -> None:
    assert queue_locks("show", f"unix://{tmp_path}/nothing#it").exit_code == 69
    assert queue_locks("show", "ftp://it").exit_code == 2


# ---------------------------------------------------------------- what importing needs

FORBIDDEN = """
import sys
class Refuse:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in sys.argv[1].split(","):
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)
sys.meta_path.insert(0, Refuse())
import inturn.locks, inturn.locks.openlock
from inturn.locks import *  # noqa
"""


def test_importing_needs_neither_redis_nor_postgresql() -> None:
    code = FORBIDDEN.replace(
        "from inturn.locks import *  # noqa",
        "from inturn.locks import KernelFileLock, FileLock\n"
        "print(KernelFileLock.__name__, FileLock.__name__, *set(sys.argv[1].split(',')) & set(sys.modules))",
    )
    forbidden = "redis,psycopg,psycopg_pool,sqlalchemy,anyio"
    done = subprocess.run([sys.executable, "-c", code, forbidden], check=True, capture_output=True, text=True)
    assert done.stdout == "KernelFileLock FileLock\n"


def test_without_redis_its_locks_say_what_to_install() -> None:
    code = FORBIDDEN.replace(
        "from inturn.locks import *  # noqa",
        "try: inturn.locks.SmartLock\nexcept ModuleNotFoundError as error: print(error)",
    )
    done = subprocess.run([sys.executable, "-c", code, "redis"], check=True, capture_output=True, text=True)
    assert "pip install 'inturn[redis]'" in done.stdout


def test_nothing_of_the_queue_is_imported() -> None:
    code = "import sys; from inturn.locks import *; print(*[n for n in sys.modules if n.startswith('inturn')])"
    done = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True)
    shared = {"inturn", "inturn.session", "inturn.patience"}  # a connection knows nothing of the queue either
    assert all(name in shared or name.startswith("inturn.locks") for name in done.stdout.split())


def test_every_exported_name_is_there_and_every_lock_has_its_twin() -> None:
    assert sorted(inturn.locks.__all__, key=lambda n: (not n.isupper(), not n[0].isupper(), n)) == inturn.locks.__all__
    for name in inturn.locks.__all__:
        assert getattr(inturn.locks, name) is not None
    for name in ("BasicLock", "SmartLock", "TokenLock", "Semaphore", "KernelFileLock", "PgLock"):
        assert f"Async{name}" in inturn.locks.__all__


def test_each_class_says_which_contract_it_gives() -> None:
    for name in inturn.locks.__all__:
        value: Any = getattr(inturn.locks, name)
        if isinstance(value, type) and name.endswith(("Lock", "Semaphore")):
            assert (value.__doc__ or "").partition(".")[0].partition(";")[0] in ("Mutex", "Lease", "Hint"), name


def test_every_script_names_its_keys_and_touches_no_other() -> None:
    folder = Path(inturn.locks.__file__).parent / "lua"
    scripts = sorted(folder.glob("*.lua"))
    assert scripts
    for script in scripts:
        text = script.read_text()
        assert text.startswith("-- "), script.name
        if script.name != "held.lua":
            assert "KEYS" in text.split("\n\n")[0], script.name
        assert not re.search(r"KEYS\[\d\] *\.\.|\.\. *KEYS", text), f"{script.name}: a key must not be put together"


@pytest.fixture(autouse=True)
def no_store(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("INTURN_LOCKS_URL", raising=False)


def test_cli_run_ends_its_command_when_the_lock_is_lost(conn: "redis.Redis", socket: str, spawn: Spawn) -> None:
    """Nothing goes on that believes to be alone."""
    code = "from inturn.cli import main; main()"
    run = spawn(
        "",
        "locks",
        "run",
        "--ttl",
        0.6,
        f"unix://{socket}#it",
        "sh",
        "-c",
        "echo runs; exec cat",
        command=[sys.executable, "-c", code],
    )
    assert run.line() == "runs"
    value = conn.get("inturn:{it}")
    assert value is not None
    conn.set("inturn:{it}", "taken")
    assert run.process.wait(30) != 0
    assert conn.get("inturn:{it}") == "taken"
