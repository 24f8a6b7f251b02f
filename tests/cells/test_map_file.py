"""The map gets the new home of a cell, and keeps the rest of its text."""

import os
import time
import tomllib
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from psycopg.conninfo import conninfo_to_dict

from inturn.cells import map_file
from inturn.cells.connector import Cells
from inturn.cells.creating import write_map
from inturn.cells.map import read_map
from inturn.cells.map_file import check_map, rewrite_home
from inturn.errors import ConfigurationError

HEAD = 'map = "0b31f6a4-3c47-4b6b-9d7e-9c1a9f0f7a51"\nof = 3\n\n'
ONE = '[[servers]]\ndsn = "dbname=one"  # old\ncells = [0, 1, 2]\n'
SEVERAL_LINES = ONE.replace("[0, 1, 2]", "[\n    0, 1,\n    2,\n]  # three [of them]")
TWO = '\n[[servers]]\ncells = [ ]\ndsn = "dbname=two"\n'


@pytest.mark.parametrize(
    ("text", "after"),
    [
        (ONE, ONE.replace(", 1", "") + '\n[[servers]]\ndsn = "dbname=two"\ncells = [1]\n'),
        (ONE + TWO, ONE.replace(", 1", "") + TWO.replace("[ ]", "[1]")),
        (
            SEVERAL_LINES + TWO,
            ONE.replace(", 1, 2]", ", 2]  # three [of them]") + TWO.replace("[ ]", "[1]"),
        ),
    ],
)
def test_only_the_cell_moves(tmp_path: Path, text: str, after: str) -> None:
    file = tmp_path / "cells.toml"
    file.write_text(HEAD + text)
    file.chmod(0o640)
    assert rewrite_home(file, 1, "dbname=two", "inturn")
    lines = [line.rstrip() for line in file.read_text().splitlines()]
    assert lines == [line.rstrip() for line in (HEAD + after).splitlines()]
    assert file.stat().st_mode & 0o777 == 0o640
    assert not rewrite_home(file, 1, "dbname=two", "inturn"), "it is there already"
    assert os.listdir(tmp_path) == ["cells.toml"]


def test_an_address_may_have_any_character(tmp_path: Path) -> None:
    file = tmp_path / "cells.toml"
    dsn = "host=db\nuser=eve\tpassword='\"\\\\\x1b😀'"
    write_map(file, 2, dsn, None)
    assert [home.dsn for home in read_map(file).homes] == [dsn, dsn]


def test_another_schema_is_another_server(tmp_path: Path) -> None:
    file, link = tmp_path / "cells.toml", tmp_path / "link.toml"
    file.write_text(HEAD + ONE)
    link.symlink_to(file)
    assert rewrite_home(link, 2, 'host="a\\b"', "jobs")
    assert tomllib.loads(file.read_text())["servers"][1] == {
        "dsn": 'host="a\\b"',
        "schema": "jobs",
        "cells": [2],
    }
    assert link.is_symlink()


@pytest.mark.parametrize(
    "servers",
    [
        'servers = [{dsn = "dbname=one", cells = [0, 1, 2]}]\n',
        ONE.replace(", 2]", ",  # small\n2]"),
    ],
)
def test_a_text_that_it_does_not_understand_stays(tmp_path: Path, servers: str) -> None:
    file = tmp_path / "cells.toml"
    text = HEAD + servers
    file.write_text(text)
    for change in (check_map, rewrite_home):
        with pytest.raises(
            ConfigurationError, match=r"changed safely, .* Move 1 to the `cells` of a \[\["
        ):
            change(file, 1, "dbname=two", "inturn")
    assert file.read_text() == text


def test_two_moves_at_once_both_change_the_map(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "cells.toml"
    file.write_text(HEAD + ONE)
    replace = map_file._replace

    def replace_slowly(file: Path, text: str) -> None:
        time.sleep(0.2)
        replace(file, text)

    monkeypatch.setattr(map_file, "_replace", replace_slowly)
    with ThreadPoolExecutor() as threads:
        moved = [threads.submit(rewrite_home, file, n, f"dbname=new{n}", "inturn") for n in (0, 1)]
        assert all(each.result() for each in moved)
    assert [home.dsn for home in read_map(file).homes] == [
        "dbname=new0",
        "dbname=new1",
        "dbname=one",
    ]


def test_each_server_has_its_own_address_to_listen_at(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("INTURN_LISTEN_DSN", "dbname=listen")
    monkeypatch.setenv("INTURN_DSN", "dbname=zero")
    file = tmp_path / "cells.toml"
    servers = '[[servers]]\ncells = [0]\n[[servers]]\ndsn = "dbname=one"\ncells = [1]\n'
    pooled = '[[servers]]\ndsn = "port=6432"\nlisten_dsn = "port=5432"\ncells = [2]\n'
    file.write_text(HEAD + servers + pooled)
    cells = Cells(file)

    def list_places(cells: Cells) -> list[str]:
        places = [
            conninfo_to_dict(home._terms("listener", to_listen=True).address)
            for home in cells.homes
        ]
        return [str(place.get("dbname") or place["port"]) for place in places]

    assert list_places(cells) == ["listen", "one", "5432"]
    file.write_text(HEAD + servers + pooled.replace("port=5432", "port=5433"))
    cells.reread()
    assert list_places(cells) == ["listen", "one", "5433"]
    assert list_places(Cells(["dbname=one", "dbname=two"])) == ["one", "two"]
