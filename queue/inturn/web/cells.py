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
from inturn.operations.engine import workers
from inturn.tasks.lanes import cell_of
from inturn.web.page import Links
from inturn.web.reading import Problem, Reading
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
    problem: Problem | None


def show_cells(cells: Sequence[Reading], request: Request, missing: str = "") -> Response:
    """Return the page. It asks all cells side by side."""
    values = {"rows": read_rows(cells), "missing": missing}
    return HTMLResponse(Links(request).render("cells.html", **values, sections=[], schema=None))


def find_cell(cells: Sequence[Reading], request: Request) -> Response:
    """Redirect to the page of a job or a lane in its cell."""
    text = request.query_params.get("find", "").replace("\0", "")
    id = read_id(text)
    if not text or (id is not None and id % STEP >= len(cells)):
        return show_cells(cells, request, f"No cell has job {text}." if text else "")
    links = Links(request)
    if id is not None:
        target = links.url(f"/cell/{id % STEP}/jobs/{id}")
    else:
        target = links.url(f"/cell/{cell_of(text, len(cells))}/lane", lock=text)
    return RedirectResponse(target.unescape(), 303)


def read_rows(cells: Sequence[Reading]) -> list[CellRow]:
    found = ask_all(range(len(cells)), lambda number: _read_row(number, cells[number]))
    return list(found.values())


def _read_row(number: int, cell: Reading) -> CellRow:
    with cell.open() as reader:
        # Workers not from the queues: one without jobs is listed only if a worker names it.
        panel = reader.panel(
            lambda reader: (
                reader.run(workers.list_queues()),
                reader.run(workers.list_workers(MOST)),
            )
        )
    queues, live = panel.value or ([], [])
    return CellRow(
        number,
        str(cell),
        sum(each.runnable for each in queues),
        sum(each.doing for each in queues),
        sum(each.state != "late" for each in live),
        any(each.more for each in queues),
        panel.problem,
    )
