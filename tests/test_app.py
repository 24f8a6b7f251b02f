"""How an app is made, and how it is found by its path."""

import sys
from pathlib import Path

import pytest

from inturn import App, PsycopgConnector
from inturn.errors import ConfigurationError


def test_an_app_takes_a_dsn_or_a_connector_but_not_both() -> None:
    address = "postgresql://user:secret@host/db"
    with pytest.raises(ConfigurationError, match="two of a DSN, a connector and cells"):
        App(address, connector=PsycopgConnector(address))


def test_an_app_refuses_a_connector_in_place_of_a_dsn() -> None:
    with pytest.raises(ConfigurationError, match=r"Pass a connector by its name: App\(connector="):
        App(PsycopgConnector())  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("path", "message"),
    [
        ("nonsense", "is not the path of an app. Write package.module:app"),
        ("no_such_module:app", "The module 'no_such_module'"),
        (".tasks:app", "is not the path of an app. Write package.module:app"),
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
    monkeypatch.syspath_prepend(tmp_path)
    for name in ("broken_module", "a_library_that_is_not_there_jobs"):
        (tmp_path / f"{name}.py").write_text("import a_library_that_is_not_there\n")
        with pytest.raises(ModuleNotFoundError, match=r"^No module named .a_library_that_is"):
            App.from_path(f"{name}:app")
        sys.modules.pop(name, None)
