"""What commands print: a table for people, JSON for programs."""

from __future__ import annotations

import io
import json
import os
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, fields, is_dataclass
from datetime import datetime
from typing import TYPE_CHECKING, Any, TypeVar
from uuid import UUID

import click

from inturn.cli.formatting import iso, visible

if TYPE_CHECKING:
    from rich.console import Console

F = TypeVar("F", bound=Callable[..., Any])
Columns = Mapping[str, Callable[[Any], str]]

UNLIMITED = 100_000  # characters: what is piped on is not cut
STYLES = {
    **dict.fromkeys(("halted", "failed", "late", "fail"), "red"),
    **dict.fromkeys(("paused", "retrying", "delayed", "warn"), "yellow"),
    **dict.fromkeys(("held", "doing", "live", "ok"), "green"),
}


@dataclass(frozen=True)
class Output:
    form: str

    @property
    def for_people(self) -> bool:
        return self.form == "table"

    def records(self, records: Sequence[Any], columns: Columns, nothing: str) -> None:
        """A list: as JSON, or as a table, which cuts what does not fit."""
        prepare()
        if not self.for_people:
            self._print_json(records)
        elif records:
            _print_table(records, columns)
        else:
            click.echo(nothing, err=True)

    def lines(self, records: Sequence[Any], lines: Sequence[str]) -> None:
        """A list: as JSON, or as lines, of which nothing may be cut."""
        prepare()
        if self.for_people:
            click.echo("\n".join(lines))
        else:
            self._print_json(records)

    def record(self, record: object, *lines: str) -> None:
        """A single thing: as one JSON object (a dict: of such things), or the lines that say it to people."""
        prepare()
        if self.for_people:
            click.echo("\n".join(lines))
        else:
            parts = (
                {name: plain(part) for name, part in record.items()}
                if isinstance(record, dict)
                else plain(record)
            )
            click.echo(json.dumps(parts, indent=2 if self.form == "json" else None))

    def _print_json(self, records: Sequence[Any]) -> None:
        if self.form == "json":
            click.echo(json.dumps(plain(records), indent=2))
        else:
            for record in records:
                click.echo(json.dumps(plain(record)))


def output_options(command: F) -> F:
    """Adds -o and --json; the command is passed `form`."""
    table = click.option(
        "-o",
        "--output",
        "form",
        type=click.Choice(["table", "json", "jsonl"]),
        default="table",
        show_default=True,
        help="How to print it.",
    )
    return table(
        click.option("--json", "form", flag_value="json", help="The same as -o json.")(command)
    )


def more(count: int, limit: int) -> None:
    """Beside the data, what it leaves out. `count`: how many there are besides; counting stopped at `limit`."""
    if count:
        prepare()
        click.echo(
            f"… {'at least ' if count >= limit else ''}{count:,} more; --limit shows more", err=True
        )


def advice(head: str, detail: str, command: str | None, label: str) -> str:
    """What was found, and below it what to do."""
    below = f"\n{'':<{len(head)}}{label}: {visible(command)}" if command else ""
    return f"{head}{visible(detail)}{below}"


def details(pairs: Mapping[str, str | None]) -> list[str]:
    """Names and values below each other, without those that have none."""
    known = {name: value for name, value in pairs.items() if value}
    width = max(map(len, known))
    return [f"{name:<{width}}  {value}" for name, value in known.items()]


def plain(value: Any, name: str = "") -> Any:
    """As JSON: ids as text, because many readers cut large numbers; times in UTC."""
    if is_dataclass(value) and not isinstance(value, type):
        return {
            field.name: plain(getattr(value, field.name), field.name) for field in fields(value)
        }
    if isinstance(value, list):
        return [plain(item) for item in value]
    if isinstance(value, datetime):
        return iso(value)
    if isinstance(value, UUID) or (
        isinstance(value, int) and (name == "id" or name.endswith("_id"))
    ):
        return str(value)
    return value


def prepare() -> None:
    """A terminal that has no such character shows its escape."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")


def _print_table(records: Sequence[Any], columns: Columns) -> None:
    from rich.table import Table
    from rich.text import Text

    table = Table(box=None, pad_edge=False, header_style="dim")
    for title in columns:
        table.add_column(
            Text(title, no_wrap=True, overflow="ellipsis"),
            no_wrap=title in ("ID", "STATUS", "STATE"),
        )
    for record in records:
        cells = (visible(cell(record)) for cell in columns.values())
        table.add_row(
            *(Text(cell, STYLES.get(cell, ""), no_wrap=True, overflow="ellipsis") for cell in cells)
        )
    _console().print(table)


def _console() -> Console:
    from rich.console import Console

    console = Console(highlight=False)
    if not console.is_terminal and "COLUMNS" not in os.environ:
        console.width = UNLIMITED
    return console
