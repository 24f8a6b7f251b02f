"""Pages and their requests."""

from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, NamedTuple, TypeVar

from markupsafe import Markup
from starlette.requests import Request

from inturn.operations import Operation
from inturn.operations.reading.situation import Situation
from inturn.web.access import Access
from inturn.web.reading import PAGE_SECONDS, PageReader, Panel
from inturn.web.redaction import Redact
from inturn.web.rendering import make_environment, make_url
from inturn.whole_numbers import HIGHEST_ID, read_id

T = TypeVar("T")
LISTED = 50  # rows of a list that continues on another page


class NotThere(Exception):
    """The job, lane and so on does not exist. `back` is the page to go to instead."""

    def __init__(self, text: str, back: str | None = None) -> None:
        super().__init__(text)
        self.back = back


class Section(NamedTuple):
    """An entry of the navigation. `g` and the key open it."""

    name: str
    title: str
    path: str
    key: str


SECTIONS = (
    Section("overview", "Overview", "/", "o"),
    Section("lanes", "Lanes", "/lanes", "l"),
    Section("jobs", "Jobs", "/jobs", "j"),
    Section("queues", "Queues", "/queues", "q"),
    Section("tasks", "Tasks", "/tasks", "t"),
    Section("workers", "Workers", "/workers", "w"),
    Section("schedules", "Schedules", "/schedules", "s"),
    Section("batches", "Batches", "/batches", "b"),
    Section("limits", "Limits", "/limits", "m"),
    Section("errors", "Errors", "/errors", "e"),
    Section("system", "System", "/system", "y"),
)


class Offer(NamedTuple):
    """An action on a page, with its effect in words."""

    path: str
    permission: str
    title: str
    effect: str
    field: str | None = None  # what the form asks for: a pause, or the lane's name
    head: int | None = None  # of the lane, as the person saw it
    is_final: bool = False


@dataclass
class Links:
    """The targets of a response's links."""

    request: Request

    @property
    def root(self) -> str:
        """The path at which the dashboard is mounted."""
        return str(self.request.scope.get("root_path", ""))

    def url(self, path: str, **query: Any) -> Markup:
        return make_url(self.root, path, query)

    def render(self, template: str, **values: Any) -> str:
        """Return a page that needs no database."""
        page = make_environment().get_template(template)
        return page.render(root=self.root, url=self.url, header=Panel(None), here=None, **values)


@dataclass
class View(Links):
    """One request for a page: its query, the person's access, and the reader."""

    access: Access
    reader: PageReader
    header: Panel[Situation]
    redact: Redact | None = None

    @property
    def now(self) -> datetime:
        """The server's time, or ours if the server does not answer."""
        return self.header.value.now if self.header.value else datetime.now(UTC)

    def panel(self, read: Callable[[PageReader], T], seconds: float = PAGE_SECONDS) -> Panel[T]:
        """Return what `read` returns, or why it failed. The rest of the page is shown anyway."""
        return self.reader.panel(read, seconds)

    def panel_of(self, read: Callable[[PageReader, Situation], T]) -> Panel[T]:
        """Return what `read` makes of the header, or why one of them failed."""
        seen = self.header.value
        if seen is None:
            return Panel(None, self.header.problem)
        return self.panel(lambda reader: read(reader, seen))

    def read(self, operation: Operation[T], seconds: float = PAGE_SECONDS) -> Panel[T]:
        """Return what the operation returns, or why it failed."""
        return self.panel(lambda reader: reader.run(operation), seconds)

    def get(self, name: str) -> str:
        """Return a value of the address, without NUL, which PostgreSQL refuses."""
        return self.request.query_params.get(name, "").replace("\0", "")

    def get_id(self, name: str) -> int:
        """Return a number of the address, or the highest possible one."""
        number = read_id(self.get(name))
        return HIGHEST_ID if number is None else max(number, 1)

    def read_newest(
        self, name: str, list_rows: Callable[[int, int], Operation[list[Any]]]
    ) -> dict[str, Any]:
        """Return the rows with lower ids than `before` in the address, newest first.

        `list_rows` gets that id and a limit. `name` is the name of the rows in the template.
        """
        before = self.get_id("before")
        found = self.read(list_rows(before, LISTED + 1))
        rows = found.value or []
        return {
            "found": found,
            name: rows[:LISTED],
            "older": rows[LISTED - 1].id if len(rows) > LISTED else None,
            "is_first": before == HIGHEST_ID,
        }

    def choose(self, name: str, choices: tuple[str, ...]) -> str:
        """Return a value of the address if it is one of these, else the first."""
        value = self.get(name)
        return value if value in choices else choices[0]


@dataclass(frozen=True, slots=True)
class Page:
    """A page: its path, navigation section, template and `read`.

    `read` returns the template's variables. It is called in a thread.
    """

    path: str
    section: str
    template: str
    read: Callable[[View], dict[str, Any]]
    title: str
