"""The first page of a dashboard over cells: how each is, and where a lane or a job is.

Each cell's own dashboard is below it, at /cell/3/.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from starlette.requests import Request
from starlette.responses import HTMLResponse, RedirectResponse, Response

from inturn.cells.asking import ask_all
from inturn.cells.placing import STEP
from inturn.database.connector import Connector
from inturn.errors import CellsUnanswered
from inturn.operations.engine import workers
from inturn.tasks.lanes import cell_of
from inturn.web.page import Links
from inturn.whole_numbers import read_id

MOST = 10_000  # workers


class CellRow(NamedTuple):
    """A cell, and what its queues have. `problem` says why it does not answer."""

    number: int
    name: str
    runnable: int
    doing: int
    workers: int
    more: bool
    problem: str | None


def show_cells(homes: Sequence[Connector], request: Request, missing: str = "") -> Response:
    """Return the page. It asks all cells side by side."""
    values = {"rows": _read_rows(homes), "missing": missing}
    return HTMLResponse(Links(request).render("cells.html", **values, sections=[], schema=None))


def find_cell(homes: Sequence[Connector], request: Request) -> Response:
    """Redirect to the page of a job or a lane in its cell."""
    text = request.query_params.get("find", "").replace("\0", "")
    id = read_id(text)
    if not text or (id is not None and id % STEP >= len(homes)):
        return show_cells(homes, request, f"No cell has job {text}." if text else "")
    links = Links(request)
    if id is not None:
        target = links.url(f"/cell/{id % STEP}/jobs/{id}")
    else:
        target = links.url(f"/cell/{cell_of(text, len(homes))}/lane", lock=text)
    return RedirectResponse(target.unescape(), 303)


def _read_rows(homes: Sequence[Connector]) -> list[CellRow]:
    numbers = range(len(homes))
    try:
        found, errors = ask_all(numbers, lambda number: _read_row(number, homes[number])), {}
    except CellsUnanswered as error:
        found, errors = error.answers, error.errors  # type: ignore[assignment]
    return [
        found[n]
        if n in found
        else CellRow(n, str(homes[n]), 0, 0, 0, more=False, problem=str(errors[n]))
        for n in numbers
    ]


def _read_row(number: int, home: Connector) -> CellRow:
    with home.connect() as connection:
        queues = home.run(workers.list_queues(), connection)
        # Not from the queues: one without jobs is listed only if a worker names it.
        live = home.run(workers.list_workers(MOST), connection)
    return CellRow(
        number,
        str(home),
        sum(each.runnable for each in queues),
        sum(each.doing for each in queues),
        sum(each.state != "late" for each in live),
        any(each.more for each in queues),
        None,
    )
