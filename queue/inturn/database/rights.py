"""Name a login that lacks a right, and the command that gives it.

A login that the server refuses usually may not read which role could help, so this reads the list
of rights that ships with inturn (sql/privileges/surface.sql).
"""

import re
from functools import cache
from typing import Any, NamedTuple

from inturn import sql
from inturn.formatting import option_value, visible

NAME = re.compile(r"\{schema\}\.(\w+)")
# What they may use as a whole. Rights to some columns are listed in another form.
LISTED = re.compile(r"\('(?:function|table)', '\{([a-z,]+)\}'(?:::text\[\])?, '\{([^}]+)\}'")


class Tried(NamedTuple):
    """A statement that the server refused."""

    cursor: Any
    text: str
    schema: str


@cache
def read_rights() -> dict[str, frozenset[str]]:
    """Return the kinds of roles that may use each function, table or view."""
    text = (sql.find_folder("sql") / "privileges" / "surface.sql").read_text(encoding="utf-8")
    return {
        name.strip(): frozenset(kinds.split(","))
        for kinds, names in LISTED.findall(text)
        for name in names.replace("::text[]", "").split(",")
    }


def find_kinds(text: str) -> list[str]:
    """Return the kinds of roles that may run a statement, those with fewer rights first.

    A statement that names nothing of ours only looks whether the schema is there.
    """
    names = set(NAME.findall(text))
    known = [read_rights()[name] for name in names & read_rights().keys()]
    if names and not known:
        return []
    return sorted(
        frozenset(sql.KINDS).intersection(*known),
        key=("producer", "worker", "monitor", "operator").index,
    )


def describe_refusal(tried: Tried | None) -> tuple[str, str]:
    """Return who lacks a right, and what gives it."""
    login = tried and _find_login(tried.cursor)
    kinds = find_kinds(tried.text) if tried else []
    who = f"Login {visible(login)}" if login else "This login"
    if tried is None or login is None or not kinds:
        return who, "To see roles and privileges: queue schema grants"
    schema = "" if tried.schema == sql.SCHEMA else f" --schema {option_value(tried.schema)}"
    others = ", ".join(f"--{kind}" for kind in kinds[1:])
    command = f"queue schema grants --apply{schema} --{kinds[0]} {option_value(login)}"
    instead = f" (or {others})" if others else ""
    return who, f"The owner of the schema can give it: {command}{instead}"


def _find_login(cursor: Any) -> str | None:
    """Return the login of a cursor's session, or None if the driver does not tell."""
    try:
        return str(cursor.login if hasattr(cursor, "login") else cursor.connection.info.user)
    except Exception:  # a broken connection must not hide the error
        return None
