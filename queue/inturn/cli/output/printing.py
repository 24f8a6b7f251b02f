"""The output of commands: tables and lines for people, JSON for programs."""

import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field, fields, is_dataclass
from datetime import datetime, timedelta
from textwrap import wrap
from typing import Any, NamedTuple, TypeVar
from uuid import UUID

import click

from inturn.cli.output.terminal import find_width
from inturn.cli.output.watch import watch_option
from inturn.cli.values import Number
from inturn.formatting import iso, visible

F = TypeVar("F", bound=Callable[..., Any])
T = TypeVar("T")
Columns = Mapping[str, Callable[[Any], str]]

UNCUT = ("ID", "STATUS", "STATE")
LEGIBLE = 24  # characters of an error that a narrow terminal should show
STYLES = {
    **dict.fromkeys(("halted", "failed", "late", "fail"), "red"),
    **dict.fromkeys(("paused", "retrying", "delayed", "stopping", "idle", "warn"), "yellow"),
    **dict.fromkeys(("held", "doing", "live", "ok"), "green"),
}


Total = Callable[[Sequence[Any]], str]


class Result(NamedTuple):
    """What a command prints: records, or why there are none."""

    form: str
    records: Sequence[Any]
    columns: Columns | None  # None: it prints the lines
    lines: Sequence[str]  # or what to print if there are no records
    spare: Sequence[str] = ()
    is_list: bool = True  # in JSON
    total: Total | None = None


@dataclass
class CellOutput:
    """What a command has to say in one cell."""

    cell: int
    results: list[Result] = field(default_factory=list)
    remarks: list[str] = field(default_factory=list)

    def say(self) -> None:
        """Print the remarks now, because a question follows them."""
        for text in self.remarks:
            click.echo(f"cell {self.cell}: {text}", err=True)
        self.remarks.clear()


class InCell(NamedTuple):
    """A record, and the cell that has it."""

    cell: int
    record: Any


held: ContextVar[CellOutput | None] = ContextVar("held", default=None)


@contextmanager
def hold_output(cell: int) -> Iterator[CellOutput]:
    """Inside the block, keep what would be printed."""
    kept = CellOutput(cell)
    before = held.set(kept)
    try:
        yield kept
    finally:
        held.reset(before)


def print_held(found: Sequence[CellOutput]) -> None:
    """Print the outputs of cells as one, and what several cells say only once."""
    all_held = [(each.cell, result) for each in found for result in each.results]
    if all_held:
        _print_result(_join_results(all_held))
    remarks = _gather((text, each.cell) for each in found for text in each.remarks)
    for text, cells in remarks.items():
        click.echo(f"{_name_cells(cells)}: {text}", err=True)


def _join_results(all_held: Sequence[tuple[int, Result]]) -> Result:
    _, first = all_held[0]
    records = [InCell(cell, each) for cell, held in all_held for each in held.records]
    if first.columns is None:
        # A single line needs no heading.
        same = _gather((tuple(held.lines), cell) for cell, held in all_held)
        lines = [
            f"{_name_cells(cells)}:{' ' if len(lines) < 2 else chr(10)}" + "\n".join(lines)
            for lines, cells in same.items()
        ]
        if first.total is not None:
            lines.append(f"all: {first.total([each.record for each in records])}")
        return Result(first.form, records, None, lines)
    # Each cell's functions know its time.
    shows = {cell: held.columns for cell, held in all_held if held.columns is not None}

    def show(name: str) -> Callable[[Any], str]:
        return lambda row: shows[row.cell][name](row.record)

    columns = {"CELL": lambda row: str(row.cell), **{name: show(name) for name in first.columns}}
    return Result(first.form, records, columns, first.lines, first.spare)


def _gather(said: Iterable[tuple[T, int]]) -> dict[T, list[int]]:
    """Return the cells that say the same."""
    found: dict[T, list[int]] = {}
    for words, cell in said:
        found.setdefault(words, []).append(cell)
    return found


def _name_cells(cells: Sequence[int]) -> str:
    """Return `cell 3`, or `cells 0-2, 5`."""
    starts = [cell for cell in cells if cell - 1 not in cells]
    ends = [cell for cell in cells if cell + 1 not in cells]
    runs = [f"{a}-{b}" if a < b else str(a) for a, b in zip(starts, ends, strict=True)]
    return f"cell{'s' if len(cells) > 1 else ''} {', '.join(runs)}"


@dataclass(frozen=True)
class Output:
    """Prints the result of a command in the chosen format."""

    form: str

    def records(
        self,
        records: Sequence[Any],
        columns: Columns,
        nothing: str,
        spare: Sequence[str] = (),
    ) -> None:
        """Print a list as JSON, or as a table that is cut to fit a terminal.

        A table that is too wide first loses the `spare` columns, one by one.
        """
        _give(Result(self.form, records, columns, [nothing], spare))

    def lines(self, records: Sequence[Any], lines: Sequence[str]) -> None:
        """Print a list as JSON, or as uncut lines."""
        _give(Result(self.form, records, None, lines))

    def record(self, record: object, *lines: str, total: Total | None = None) -> None:
        """Print one record as a JSON object or as lines. A dict becomes an object of its values.

        `total` returns what the records of all cells are together.
        """
        _give(Result(self.form, [record], None, lines, is_list=False, total=total))


def _give(result: Result) -> None:
    """Print the result now, or with those of other cells."""
    kept = held.get()
    if kept is None:
        _print_result(result)
    else:
        kept.results.append(result)


def _print_result(result: Result) -> None:
    records = result.records
    if result.form == "jsonl":
        for record in records:
            click.echo(json.dumps(plain(record)))
    elif result.form == "json":
        click.echo(json.dumps(plain(records if result.is_list else records[0]), indent=2))
    elif result.columns is None:
        for line in result.lines:
            click.echo(line)
    elif records:
        _print_table(records, result.columns, result.spare)
    else:
        click.echo(result.lines[0], err=True)


def output_options(command: F) -> F:
    """Add -o and --json. The command receives the choice as `form`.

    Lists, whose functions are called `list_…`, also get --watch.
    """
    if getattr(command, "__name__", "").startswith("list_"):
        command = watch_option(command)
    table = click.option(
        "-o",
        "--output",
        "form",
        type=click.Choice(["table", "json", "jsonl"]),
        default="table",
        show_default=True,
        help="How to print the result.",
    )
    return table(
        click.option("--json", "form", flag_value="json", help="Same as -o json.")(command)
    )


def limit_option(help: str, *, most: int, default: int) -> Callable[[F], F]:
    """Return the option --limit, which `more` mentions."""
    return click.option(
        "--limit", type=Number(1, most), default=default, show_default=True, help=help
    )


def more(count: int, *, or_more: bool) -> None:
    """Print how many records were left out."""
    if count > 0:
        at_least = "at least " if or_more else ""
        remark(f"… {at_least}{count:,} more (raise --limit to see them)")


def remark(text: str) -> None:
    """Print a note for people that is not part of the result."""
    kept = held.get()
    if kept is not None:
        kept.remarks.append(text)
        return
    click.echo(text, err=True)


def advice(head: str, detail: str, command: str | None, label: str) -> str:
    """Return a finding, with its remedy on a separate line.

    On a terminal, a long detail is wrapped. The command is never broken.
    """
    lines = [visible(detail)]
    width = find_width()
    if width is not None:
        room = max(width - len(head), LEGIBLE)
        lines = wrap(lines[0], room, break_long_words=False, break_on_hyphens=False)
    if command:
        lines.append(f"{label}: {visible(command)}")
    return head + f"\n{'':<{len(head)}}".join(lines)


def details(pairs: Mapping[str, str | None]) -> list[str]:
    """Return one line per name that has a value."""
    known = {name: value for name, value in pairs.items() if value}
    width = max(map(len, known))
    return [f"{name:<{width}}  {value}" for name, value in known.items()]


def plain(value: Any, name: str = "") -> Any:
    """Return the value for JSON: times in UTC, ids as text, lengths of time in seconds.

    Many JSON readers round large numbers, so ids are safe only as text.
    """
    if isinstance(value, InCell):
        return {"cell": value.cell, **plain(value.record)}
    if is_dataclass(value) and not isinstance(value, type):
        return {each.name: plain(getattr(value, each.name), each.name) for each in fields(value)}
    if isinstance(value, list):
        # A bulk's sample is a list of jobs, or of lanes, which are text anyway.
        return [plain(item, "id" if name == "sample" else "") for item in value]
    if isinstance(value, dict) and not name:
        return {key: plain(item, key) for key, item in value.items()}
    if isinstance(value, datetime):
        return iso(value)
    if isinstance(value, timedelta):
        return value.total_seconds()
    if isinstance(value, UUID) or (
        isinstance(value, int) and (name == "id" or name.endswith("_id"))
    ):
        return str(value)
    return value


def _print_table(records: Sequence[Any], columns: Columns, spare: Sequence[str]) -> None:
    rows = [[visible(cell(record)) for cell in columns.values()] for record in records]
    width = find_width()
    titles = list(columns)
    if width is None:
        widths = _widths(titles, rows)
        lines = ["  ".join(map(str.ljust, row, widths)).rstrip() for row in [titles, *rows]]
        click.echo("\n".join(lines))
        return
    _print_rich_table(*_drop_spare(titles, rows, spare, width))


def _widths(titles: Sequence[str], rows: Sequence[Sequence[str]]) -> list[int]:
    return [max(map(len, column)) for column in zip(titles, *rows, strict=True)]


def _drop_spare(
    titles: list[str], rows: list[list[str]], spare: Sequence[str], width: int
) -> tuple[list[str], list[list[str]]]:
    """Return the table without the spare columns that must go for it to fit, if that helps."""
    for title in spare:
        widths = _widths(titles, rows)
        widths[-1] = min(widths[-1], LEGIBLE)
        if sum(widths) + 2 * (len(widths) - 1) <= width:
            break
        place = titles.index(title)
        titles = titles[:place] + titles[place + 1 :]
        rows = [row[:place] + row[place + 1 :] for row in rows]
    return titles, rows


def _print_rich_table(titles: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    table = Table(box=None, pad_edge=False, header_style="dim")
    for title in titles:
        table.add_column(Text(title, no_wrap=True, overflow="ellipsis"), no_wrap=title in UNCUT)
    for row in rows:
        table.add_row(
            *(Text(cell, STYLES.get(cell, ""), no_wrap=True, overflow="ellipsis") for cell in row)
        )
    Console(highlight=False).print(table)
