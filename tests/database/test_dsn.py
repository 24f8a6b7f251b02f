"""Where an address comes from, and how a wrong one is refused."""

import pytest

from inturn.database.dsn import find_dsn
from inturn.errors import ConfigurationError

HERE = "postgresql://user:secret@host/db"


def test_a_dsn_is_looked_for_from_the_nearest_to_the_farthest() -> None:
    everywhere = {"INTURN_DSN": "dbname=b", "DATABASE_URL": "dbname=c", "PGHOST": "d"}
    assert find_dsn(HERE, everywhere) == HERE
    assert find_dsn(None, everywhere) == "dbname=b"
    assert find_dsn(None, {"DATABASE_URL": "dbname=c", "PGHOST": "d"}) == "dbname=c"
    assert find_dsn(None, {"PGHOST": "d"}) == ""  # libpq reads the variables itself


def test_sqlalchemys_spelling_of_an_address_is_understood() -> None:
    for driver in ("psycopg", "psycopg2", "asyncpg"):
        assert find_dsn(f"postgresql+{driver}://host/db", {}) == "postgresql://host/db"


def test_without_any_address_the_error_says_how_to_give_one() -> None:
    with pytest.raises(ConfigurationError, match="set INTURN_DSN="):
        find_dsn(None, {})
    with pytest.raises(ConfigurationError, match="run `queue dev`"):
        find_dsn(None, {})


def test_a_wrong_address_is_refused_without_showing_its_password() -> None:
    with pytest.raises(
        ConfigurationError, match="INTURN_DSN is not a PostgreSQL address"
    ) as raised:
        find_dsn(None, {"INTURN_DSN": "mysql://user:secret@host/db"})
    assert "secret" not in str(raised.value)
    assert raised.value.__cause__ is None
