"""Change the home of a cell in the map's file, and leave the rest of the text as it is."""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import re
import shutil
import tempfile
import tomllib
from collections.abc import Iterator, Mapping
from itertools import pairwise
from pathlib import Path
from typing import Any

from inturn.errors import ConfigurationError
from inturn.sql import SCHEMA

# The numbers of a server, on one or several lines without comments.
CELLS = re.compile(r"^([ \t]*cells[ \t]*=[ \t]*)\[[^\]#]*\]", re.M)
SERVER = re.compile(r"^[ \t]*\[\[[ \t]*servers[ \t]*\]\]", re.M)


def check_map(file: Path, number: int, dsn: str, prefix: str) -> None:
    """Raise ConfigurationError if `rewrite_home` could not give the cell this server."""
    _change(file, number, dsn, prefix)
    folder = Path(os.path.realpath(file)).parent
    if not os.access(folder, os.W_OK):
        raise ConfigurationError(f"{file} cannot be written: {folder} is not yours to write")


def rewrite_home(file: Path, number: int, dsn: str, prefix: str) -> bool:
    """Give a cell another server in the file. Return False if it has it already.

    Raise ConfigurationError, and change nothing, if the text cannot be changed safely.
    """
    with _alone(file):
        changed = _change(file, number, dsn, prefix)
        if changed is not None:
            _replace(file, changed)
    return changed is not None


def _change(file: Path, number: int, dsn: str, prefix: str) -> str | None:
    """Return the new text, or None if the cell has this server already."""
    text = file.read_text(encoding="utf-8")
    read = tomllib.loads(text)
    wanted = _move(read, number, dsn, prefix)
    if wanted == read:
        return None
    changed = _move_in_text(text, read, wanted)
    if not _says(changed, wanted):
        named = "" if prefix == SCHEMA else f', schema = "{prefix}"'
        raise ConfigurationError(
            f"{file} cannot be changed safely, as it has comments in a list of cells, or no "
            f"[[servers]]. Move {number} to the `cells` of a [[servers]] with "
            f'dsn = "{dsn}"{named}'
        )
    return changed


@contextlib.contextmanager
def _alone(file: Path) -> Iterator[None]:
    """Keep the moves of other cells from changing the map.

    The lock is that of the folder, because the file itself is replaced.
    """
    folder = os.open(Path(os.path.realpath(file)).parent, os.O_RDONLY)
    try:
        fcntl.flock(folder, fcntl.LOCK_EX)
        yield
    finally:
        os.close(folder)


def _move(read: dict[str, Any], number: int, dsn: str, prefix: str) -> dict[str, Any]:
    servers = [dict(server) for server in read["servers"]]
    homes = [s for s in servers if (s.get("dsn"), s.get("schema", SCHEMA)) == (dsn, prefix)]
    if any(number in home["cells"] for home in homes):
        return read
    for server in servers:
        server["cells"] = [cell for cell in server["cells"] if cell != number]
    if homes:
        homes[0]["cells"] = sorted([*homes[0]["cells"], number])
    else:
        new = {"dsn": dsn, "cells": [number]}
        servers.append(new if prefix == SCHEMA else {**new, "schema": prefix})
    return {**read, "servers": servers}


def _move_in_text(text: str, read: dict[str, Any], wanted: dict[str, Any]) -> str:
    starts = [found.start() for found in SERVER.finditer(text)] + [len(text)]
    parts = [text[: starts[0]]]
    for place, (start, end) in enumerate(pairwise(starts)):
        block = text[start:end]
        if place < len(read["servers"]):
            after = wanted["servers"][place]["cells"]
            if read["servers"][place]["cells"] != after:
                block = CELLS.sub(rf"\g<1>{after}", block, count=1)
        parts.append(block)
    changed = "".join(parts)
    if len(wanted["servers"]) > len(read["servers"]):
        changed = changed.rstrip("\n") + "\n\n" + write_server(wanted["servers"][-1])
    return changed


def write_server(server: Mapping[str, Any]) -> str:
    """Return a server with its cells, and with its address and schema if it has them."""
    lines = ["[[servers]]"]
    for name in ("dsn", "schema"):
        if (text := server.get(name)) is not None:
            lines.append(f"{name} = {json.dumps(text, ensure_ascii=False)}")  # TOML quotes alike
    return "\n".join([*lines, f"cells = {server['cells']}", ""])


def _says(text: str, wanted: dict[str, Any]) -> bool:
    try:
        return _homes(tomllib.loads(text)) == _homes(wanted)
    except (KeyError, ValueError):
        return False


def _homes(read: dict[str, Any]) -> list[tuple[Any, ...]]:
    return sorted(
        (number, server.get("dsn") or "", server.get("schema", SCHEMA))
        for server in read["servers"]
        for number in server["cells"]
    )


def _replace(file: Path, text: str) -> None:
    """Write the file as a whole: a process that reads it now gets the old text or the new one."""
    real = Path(os.path.realpath(file))
    descriptor, name = tempfile.mkstemp(dir=real.parent, prefix=f".{real.name}.")
    try:
        with open(descriptor, "w", encoding="utf-8") as opened:
            opened.write(text)
            opened.flush()
            os.fsync(opened.fileno())
        shutil.copymode(real, name)
        with contextlib.suppress(PermissionError):
            os.chown(name, real.stat().st_uid, real.stat().st_gid)
        os.replace(name, real)
    except BaseException:
        with contextlib.suppress(FileNotFoundError):
            os.unlink(name)
        raise
