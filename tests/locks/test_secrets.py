"""Neither `queue locks` nor the errors and reprs of locks show any part of a password."""

import traceback
from collections.abc import Iterator
from typing import Any

import pytest
import redis

from inturn.locks import AsyncPgLock, LockError, PgLock, SmartLock, lock_from_url
from inturn.locks.listing import list_holders
from tests.cli.calling import invoke

SECRETS = ("hunter", "snow", "hun")

UNREACHABLE = [
    "redis://:hunter@127.0.0.1:1/0",
    "redis://u:hunter@127.0.0.1:1/0?nonsense=1",
    "rediss://u:hunter@127.0.0.1:1/0",
    "postgresql://u:hunter@127.0.0.1:1/db",
]
# As people write them, without escaping special characters in the password.
MALFORMED = [
    "redis://:hunter/snow@127.0.0.1:1/0",
    "redis://:hunter?snow@127.0.0.1:1/0",
    "redis://:hunter[snow@127.0.0.1:1/0",
    "redis://:hunter@127.0.0.1:port/0",
    "redis://:hunter@127.0.0.1:1/0?socket_timeout=snow",
    "postgresql://u:hunter/snow@127.0.0.1:1/db",
    "postgresql://u:hunter@snow@127.0.0.1:1/db",
    "postgresql://u:hunter?snow@127.0.0.1:1/db",
    "postgresql://u:%hunter@127.0.0.1:1/db",
    "postgresql://u:hunter@127.0.0.1:port/db",
    "postgresql://u:hunter@127.0.0.1:1/db?nonsense=snow",
    "mysql://u:hunter@127.0.0.1/db",
    "hunter",
]
WORDS = [["show"], ["wait", "--timeout", "0"], ["break", "--yes"], ["run", "--timeout", "0"]]


def clean(text: str) -> bool:
    return not any(secret in text for secret in SECRETS)


@pytest.mark.parametrize("address", UNREACHABLE + MALFORMED)
def test_no_command_repeats_an_address_that_cannot_be_used(address: str) -> None:
    results = [invoke("locks", "list", address)]
    for words in WORDS:
        rest = ["--", "true"] if words[0] == "run" else []
        results.append(invoke("locks", *words, f"{address}#it", *rest))
    for result in results:
        assert result.returncode in (2, 69), result.output
        assert result.output.startswith("error: ")
        assert clean(result.output), result.output


@pytest.mark.parametrize("address", UNREACHABLE + MALFORMED)
def test_the_traceback_of_a_command_does_not_repeat_the_address(address: str) -> None:
    output = invoke("-v", "locks", "list", address).output
    assert "Traceback" in output
    assert clean(output), output


@pytest.mark.parametrize("address", MALFORMED)
def test_no_error_nor_its_cause_repeats_a_malformed_address(address: str) -> None:
    def use() -> None:
        lock_from_url(f"{address}#it").holder()

    def look() -> None:
        list(list_holders(address))

    for call in (use, look):
        with pytest.raises((LockError, ValueError, TypeError)) as raised:
            call()
        report = "".join(traceback.format_exception(raised.value))
        # Without the lines of code: one of them is in this file.
        assert clean(
            "".join(line for line in report.splitlines() if not line.startswith("    "))
        ), report


def test_a_malformed_address_is_answered_with_how_to_write_it() -> None:
    for address in ("redis://:hunter/snow@h/0", "postgresql://u:hunter/snow@h/db"):
        with pytest.raises(ValueError, match="%2F"):
            lock_from_url(f"{address}#it")


def test_no_lock_shows_its_address() -> None:
    locks: list[Any] = [
        PgLock("postgresql://u:hunter@h/db", "it"),
        AsyncPgLock("postgresql://u:hunter@h/db", "it"),
        SmartLock(redis.Redis.from_url("redis://u:hunter@h/0"), "it"),
        lock_from_url("redis://u:hunter@h/0#it"),
    ]
    for lock in locks:
        assert clean(f"{lock!r} {lock} {lock.new_contender()!r} {lock.port()!r}")


@pytest.fixture
def guarded(conn: "redis.Redis", socket: str) -> Iterator[str]:
    """The address of a Redis that asks for a password, without the name of a lock."""
    conn.config_set("requirepass", "hunter")
    try:
        yield f"unix://:hunter@{socket}"
    finally:
        with redis.Redis(unix_socket_path=socket, password="hunter") as client:
            client.config_set("requirepass", "")


def test_no_command_repeats_an_address_that_can_be_used(guarded: str) -> None:
    lock = f"{guarded}#it"

    def outputs() -> list[str]:
        all_words = [
            ["list", guarded],
            ["show", lock],
            ["wait", "--timeout", "0", lock],
            ["break", "--dry-run", lock],
        ]
        return [invoke("locks", *words).output for words in all_words]

    free = outputs()
    with lock_from_url(lock):
        held = outputs()
        refused = invoke("locks", "run", "--timeout", "0", lock, "--", "true").output
    is_free = "error: The lock it is free.\n"
    assert free == ["No lock is held in this store.\n", is_free, "", is_free]
    assert all("it" in text for text in [*held, refused])
    assert all("OWNER" in text or "held by" in text or "owner" in text for text in [*held, refused])
    assert clean("".join([*free, *held, refused]))


def test_the_password_need_not_be_among_the_arguments(guarded: str) -> None:
    assert invoke("locks", "show", "#it", env={"INTURN_LOCKS_URL": guarded}).returncode == 3
    with lock_from_url(f"{guarded}#it"):
        for words in (["list"], ["show", "#it"]):
            assert "it  " in invoke("locks", *words, env={"INTURN_LOCKS_URL": guarded}).output
    nowhere = invoke("locks", "show", "#it")
    assert (nowhere.returncode, "Set INTURN_LOCKS_URL" in nowhere.output) == (2, True)


def test_the_content_of_a_store_cannot_act_on_a_terminal(
    conn: "redis.Redis", socket: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    # click strips what acts on a terminal from all other output.
    monkeypatch.setattr("click.utils.should_strip_ansi", lambda *_, **__: False)
    name = "it\n\x1b]52;c;aGk=\x07"
    with SmartLock(conn, name):
        for words in (
            ["list", f"unix://{socket}"],
            ["wait", "--timeout", "0", f"unix://{socket}#{name}"],
        ):
            output = invoke("locks", *words).output
            assert r"it\n\x1b]52;c;aGk=\x07" in output
            assert all(line.isprintable() for line in output.splitlines())
