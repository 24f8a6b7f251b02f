"""`queue` prints no part of a password of an address that cannot be used, even with -v."""

import pytest

from tests.cli.conftest import Run

# As people write them, without an escape for special characters.
ADDRESSES = {
    "postgresql://u:hunter@127.0.0.1:1/db": 69,
    "host=127.0.0.1 port=1 user=u password=hunter": 69,
    "postgresql://u:hunter/snow@127.0.0.1:1/db": 2,
    "postgresql://u:hunter@snow@127.0.0.1:1/db": 2,
    "postgresql://u:hunter?snow@127.0.0.1:1/db": 69,
    "postgresql://u:%hunter@127.0.0.1:1/db": 2,
    "host=127.0.0.1 port=1 password=hunter snow": 2,
    "mysql://u:hunter@127.0.0.1/db": 2,
    "hunter snow": 2,
}


@pytest.mark.parametrize(
    "words", [["doctor"], ["migrate"], ["worker", "-a", "tasks:app"]], ids=" ".join
)
def test_no_command_repeats_an_address_that_cannot_be_used(words: list[str], run: Run) -> None:
    for address, status in ADDRESSES.items():
        ended = run("-v", *words, "--dsn", address)
        assert ended.returncode == status, (address, ended.stderr)
        assert "hunter" not in ended.stdout + ended.stderr
        assert "snow" not in ended.stdout + ended.stderr
