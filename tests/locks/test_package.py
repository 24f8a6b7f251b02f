"""What importing the package needs, and what its public names promise."""

import subprocess
import sys
from typing import Any

import pytest

import inturn.locks

NAMES: list[str] = vars(inturn.locks)["__all__"]  # the stub does not declare it
FORBIDDEN = """
import sys
class Refuse:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in sys.argv[1].split(","):
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)
sys.meta_path.insert(0, Refuse())
import inturn.locks, inturn.locks.compat.openlock
from inturn.locks import *  # noqa
"""


def test_importing_needs_neither_redis_nor_postgresql() -> None:
    code = FORBIDDEN.replace(
        "from inturn.locks import *  # noqa",
        "from inturn.locks import KernelFileLock, FileLock\n"
        "loaded = set(sys.argv[1].split(',')) & set(sys.modules)\n"
        "print(KernelFileLock.__name__, FileLock.__name__, *loaded)",
    )
    forbidden = "redis,psycopg,psycopg_pool,sqlalchemy,anyio"
    done = subprocess.run(
        [sys.executable, "-c", code, forbidden], check=True, capture_output=True, text=True
    )
    assert done.stdout == "KernelFileLock FileLock\n"


@pytest.mark.landing
def test_without_redis_its_locks_say_what_to_install() -> None:
    code = FORBIDDEN.replace(
        "from inturn.locks import *  # noqa",
        "try: inturn.locks.SmartLock\nexcept ModuleNotFoundError as error: print(error)",
    )
    done = subprocess.run(
        [sys.executable, "-c", code, "redis"], check=True, capture_output=True, text=True
    )
    assert "pip install 'inturn[redis]'" in done.stdout


@pytest.mark.landing
def test_without_redis_an_address_of_a_lock_says_what_to_install() -> None:
    code = FORBIDDEN.replace(
        "from inturn.locks import *  # noqa",
        "try: inturn.locks.lock_from_url('redis://localhost/0#it')\n"
        "except ModuleNotFoundError as error: print(error)",
    )
    done = subprocess.run(
        [sys.executable, "-c", code, "redis"], check=True, capture_output=True, text=True
    )
    assert done.stdout.startswith("A lock in Redis needs packages that are not installed. Run: pip")


def test_nothing_of_the_queue_is_imported() -> None:
    code = (
        "import sys; from inturn.locks import *; "
        "print(*[name for name in sys.modules if name.startswith('inturn')])"
    )
    done = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True)
    # What a connection needs knows nothing of the queue either.
    shared = {
        "inturn",
        "inturn.lazy",
        "inturn.database",
        "inturn.database.session",
        "inturn.database.deadlines",
    }
    assert all(name in shared or name.startswith("inturn.locks") for name in done.stdout.split())


def test_every_exported_name_is_there_and_every_lock_has_its_twin() -> None:
    assert sorted(NAMES, key=lambda n: (not n.isupper(), not n[0].isupper(), n)) == NAMES
    for name in NAMES:
        assert getattr(inturn.locks, name) is not None
    for name in ("BasicLock", "SmartLock", "TokenLock", "Semaphore", "KernelFileLock", "PgLock"):
        assert f"Async{name}" in NAMES


def test_each_class_says_which_contract_it_gives() -> None:
    for name in NAMES:
        value: Any = getattr(inturn.locks, name)
        if isinstance(value, type) and name.endswith(("Lock", "Semaphore")):
            assert (value.__doc__ or "").partition(".")[0].partition(";")[0] in (
                "Mutex",
                "Lease",
                "Hint",
            ), name
