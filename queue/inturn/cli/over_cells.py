"""Run a command in several cells: reads side by side, changes one after another."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import click

from inturn.cells.asking import ask_all
from inturn.cells.placing import share_call
from inturn.cli.output.exit_status import (
    Conflict,
    Declined,
    NotFound,
    Unconfirmed,
    get_status,
    print_error,
)
from inturn.cli.output.printing import CellOutput, hold_output, print_held
from inturn.cli.settings import Settings
from inturn.errors import BadArgument, CellsUnanswered, InturnError

READS = ("list_", "count", "next_", "command")  # what the names of functions that read begin with
Run = Callable[[int, Mapping[str, Any]], None]


def run_over_cells(name: str, cells: int, given: Mapping[str, Any], run: Run) -> None:
    """Run a command in the cells that its arguments are about, by default all."""
    if cells == 1:
        run(0, given)
        return
    chosen = share_call(given, cells)
    if len(chosen) == 1:
        ((cell, arguments),) = chosen.items()
        _in_cell(cell, arguments, run)
    elif name.startswith(READS):
        _read(chosen, run)
    else:
        _change(chosen, run)


def _change(chosen: Mapping[int, Mapping[str, Any]], run: Run) -> None:
    """Make a change in each cell, also if another one refuses it or does not answer."""
    errors: dict[int, InturnError] = {}
    found: list[CellOutput] = []
    codes: list[Any] = []
    try:
        for cell, arguments in chosen.items():
            with hold_output(cell) as kept:
                found.append(kept)
                try:
                    _in_cell(cell, arguments, run)
                except (BadArgument, Declined, Unconfirmed):
                    raise  # it would be the same in each cell
                except InturnError as error:
                    errors[cell] = error
                except SystemExit as ended:
                    codes.append(ended.code)
    finally:
        print_held(found)
    if len(errors) == len(chosen):
        raise next(iter(errors.values()))
    # What is not in a cell, or is as wanted there, is no failure if another cell had it.
    failed = {
        cell: error for cell, error in errors.items() if not isinstance(error, Conflict | NotFound)
    }
    for cell, problem in failed.items():
        print_error(f"cell {cell}: {problem}")
    _exit(codes, list(failed.values()))


def _in_cell(cell: int, arguments: Mapping[str, Any], run: Run) -> None:
    """Run it with settings that name the cell, so that the commands it suggests do so too."""
    outer = click.get_current_context()
    settings = replace(outer.ensure_object(Settings), cell=cell)
    with click.Context(outer.command, info_name=outer.info_name, obj=settings):
        run(cell, arguments)


def _read(chosen: Mapping[int, Mapping[str, Any]], run: Run) -> None:
    context = click.get_current_context()

    def ask(cell: int) -> Any:
        with context.scope(cleanup=False), hold_output(cell) as kept:
            try:
                _in_cell(cell, chosen[cell], run)
            except NotFound as error:
                return (None, error)
            except SystemExit as ended:
                return (kept, ended.code)
        return (kept, 0)

    errors: Mapping[int, Exception] = {}
    try:
        answers = ask_all(list(chosen), ask)
    except CellsUnanswered as error:
        answers, errors = error.answers, error.errors
    found = {cell: kept for cell, (kept, _) in answers.items() if kept is not None}
    print_held(list(found.values()))
    for cell, problem in errors.items():
        print_error(f"cell {cell} did not answer: {problem}")
    if not found and not errors:
        raise next(error for _, error in answers.values())
    _exit([code for cell, (_, code) in answers.items() if cell in found], list(errors.values()))


def _exit(codes: Sequence[int], errors: Sequence[Any]) -> None:
    status = max([*codes, *map(get_status, errors)], default=0)
    if status:
        raise SystemExit(status)
