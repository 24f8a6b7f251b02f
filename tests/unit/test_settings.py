"""How an address, the queues of a notification, and an app are found."""

import sys
from pathlib import Path

import pytest

from inturn import App, PsycopgConnector
from inturn.database.dsn import find_dsn
from inturn.errors import ConfigurationError
from inturn.worker.listener import concerns

HERE = "postgresql://user:secret@host/db"


def test_a_dsn_is_looked_for_from_the_nearest_to_the_farthest() -> None:
    everywhere = {"INTURN_DSN": "dbname=b", "DATABASE_URL": "dbname=c", "PGHOST": "d"}
    assert find_dsn(HERE, everywhere) == HERE
    assert find_dsn(None, everywhere) == "dbname=b"
    assert find_dsn(None, {"DATABASE_URL": "dbname=c", "PGHOST": "d"}) == "dbname=c"
    assert find_dsn(None, {"PGHOST": "d"}) == ""  # libpq reads the variables itself


def test_sqlalchemys_spelling_of_an_address_is_understood() -> None:
    assert find_dsn("postgresql+psycopg://host/db", {}) == "postgresql://host/db"


def test_without_any_address_the_error_says_how_to_give_one() -> None:
    with pytest.raises(ConfigurationError, match="set INTURN_DSN="):
        find_dsn(None, {})


def test_a_wrong_address_is_refused_without_showing_its_password() -> None:
    with pytest.raises(
        ConfigurationError, match="INTURN_DSN is not a PostgreSQL address"
    ) as raised:
        find_dsn(None, {"INTURN_DSN": "mysql://user:secret@host/db"})
    assert "secret" not in str(raised.value)
    assert raised.value.__cause__ is None


def test_an_app_takes_a_dsn_or_a_connector_but_not_both() -> None:
    with pytest.raises(ConfigurationError, match="either a DSN or a connector"):
        App(HERE, connector=PsycopgConnector(HERE))


@pytest.mark.parametrize(
    ("payload", "queues", "answer"),
    [
        ("", ["a"], True),
        ("a", None, True),
        ("a,b", ["b"], True),
        ("ab", ["a"], False),
        ("c", ["a", "b"], False),
    ],
)
def test_a_notification_concerns_workers_that_serve_its_queues(
    payload: str, queues: list[str] | None, answer: bool
) -> None:
    assert concerns(payload, queues) is answer


@pytest.mark.parametrize(
    ("path", "message"),
    [
        ("nonsense", "is not the path of an app. Write package.module:app"),
        ("no_such_module:app", "The module 'no_such_module'"),
        ("sys:path", "is a list, not an inturn.App"),
        ("sys:nothing", "has no .nothing."),
    ],
)
def test_a_wrong_path_of_an_app_is_explained(path: str, message: str) -> None:
    with pytest.raises(ConfigurationError, match=message):
        App.from_path(path)


def test_a_missing_import_inside_the_users_module_is_shown_as_it_is(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "broken_module.py").write_text("import a_library_that_is_not_there\n")
    monkeypatch.syspath_prepend(tmp_path)
    with pytest.raises(ModuleNotFoundError, match="a_library_that_is_not_there"):
        App.from_path("broken_module:app")
    sys.modules.pop("broken_module", None)
