"""The pages of docs/api are up to date and complete. Its examples run, and so do those of other pages."""

import ast
import builtins
import functools
import inspect
import json
import re
import sys
import time
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from functools import partial
from types import ModuleType, SimpleNamespace
from typing import Annotated, Any, Unpack
from urllib.parse import urlencode
from uuid import UUID, uuid4

import anyio
import asyncpg
import psycopg
import pytest
from alembic.config import Config
from alembic.runtime.environment import EnvironmentContext
from alembic.script import ScriptDirectory
from anyio.from_thread import start_blocking_portal
from fastapi import Depends, FastAPI
from psycopg.conninfo import conninfo_to_dict
from sqlalchemy import URL, MetaData, create_engine, text
from sqlalchemy.ext.asyncio import AsyncSession, create_async_engine
from sqlalchemy.orm import Session
from sqlalchemy.pool import NullPool

import inturn
from inturn import App, sql, testing
from inturn.contrib import lifespan
from inturn.contrib.alembic import ignoring
from inturn.django.connector import connector_params
from inturn.model import Status
from inturn.tasks.deferred import T
from inturn.tasks.task import P
from inturn.testing import Databases, Queue
from tests import reference
from tests.reference import Named, Place, all_errors, all_locks, blocks, entries, examples, members

TABLES = "CREATE TABLE orders (id bigint PRIMARY KEY, paid bool); CREATE TABLE accounts (id bigint, balance numeric)"
# Tasks that an example declares are run too, with these.
ARGUMENTS = {"letter": "a", "to": "ann@example.org", "order": 7, "amount": 5, "rows": 3,
             "item": "bolt", "timestamp": 0,
             "host": "here", "url": "http://here"}  # fmt: skip
NAMES = {name: getattr(inturn, name) for name in inturn.__all__} | {
    name: getattr(testing, name) for name in testing.__all__
}
ALL = [each for entry in entries() for each in (entry, *members(entry))]
CODE = [
    pytest.param(reference.with_imports(code), id=f"{entry.name}.{each.name}")
    for entry in entries()
    for each in (entry, *members(entry))
    for code in examples(each)
]
DOCS = reference.DOCS
README = (DOCS.parent / "README.md").read_text(encoding="utf-8")
CODE.append(pytest.param(README.split("```python\n")[-1].partition("```")[0], id="README"))
PAGES = {  # the part of each page whose examples run here, in the same scope
    "exactly-once": "",
    "integrations": "## FastAPI",
    "locks": "## With jobs",
    "logging": "",
    "outages": "",
    "periodic": "",
    "production": "",
    "tuning": "",
    "values": "",
    "verify": "",
}
for name, start in PAGES.items():
    page = (DOCS / f"{name}.md").read_text(encoding="utf-8")
    found = re.findall(
        r"^```python\n(.*?)^```", page[page.index(start) :], re.MULTILINE | re.DOTALL
    )
    CODE += [pytest.param(code, id=f"{name}.md-{number}") for number, code in enumerate(found)]
# What the examples of the pages import elsewhere, or take as given.
GIVEN = {
    "inturn": inturn,
    "Annotated": Annotated,
    "AsyncIterator": AsyncIterator,
    "AsyncSession": AsyncSession,
    "Decimal": Decimal,
    "Depends": Depends,
    "MyEncoder": json.JSONEncoder,
    "UUID": UUID,
    "ask_the_bank": lambda amount: amount,
    "asyncpg": asyncpg,
    "create_async_engine": partial(create_async_engine, poolclass=NullPool),
    "text": text,
    "dataclass": dataclass,
    "date": date,
    "functools": functools,
    "json": json,
    "my_hook": dict,
    "order": SimpleNamespace(id=uuid4()),
}


WRITTEN = reference.pages()
# What the index of the pages explains, and what the text above an example does.
EXPLAINED = {"app", "write", "ship", "report", "queue", "dsn"}
EXPLAINED |= {"connection", "context", "create_my_tables", "metadata", "supplier", "test_dsn"}


def test_the_pages_are_up_to_date() -> None:
    found = [reference.INDEX, *reference.FOLDER.glob("*.md")]
    assert sorted(found) == sorted(WRITTEN), "run `make docs`"
    for file, written in WRITTEN.items():
        assert file.read_text(encoding="utf-8") == written, "run `make docs`"


def test_every_example_on_the_pages_is_one_that_runs_here() -> None:
    ran = {param.values[0] for param in CODE}
    signatures = {reference.broken(reference.signature(named)) for named in ALL}
    blocks = re.findall(r"^```python\n.*?\n```$", "\n".join(WRITTEN.values()), re.M | re.S)
    shown = [block[len("```python\n") : -len("\n```")] for block in {*blocks} - signatures]
    assert len(shown) > 90
    assert [code for code in shown if code not in ran] == []


@pytest.mark.parametrize("named", ALL, ids=lambda named: named.name)
def test_an_example_uses_only_names_that_a_reader_knows(named: Named) -> None:
    for code in examples(named):
        tree = ast.parse(reference.with_imports(code))
        nodes = list(ast.walk(tree))
        used = {n.id for n in nodes if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Load)}
        stored = {n.id for n in nodes if isinstance(n, ast.Name)} - used
        stored |= {n.id for n in nodes if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Store)}
        named_here = {getattr(n, "name", None) or getattr(n, "arg", None) for n in nodes}
        known = stored | named_here | EXPLAINED | set(dir(builtins))
        assert used <= known, used - known


def test_an_example_on_the_page_imports_what_it_uses() -> None:
    code = "@app.task\ndef nap(context: JobContext, at: datetime) -> None:\n    raise JobAborted"
    assert reference.with_imports(code).splitlines()[:3] == [
        "from datetime import datetime",
        "from inturn import JobAborted, JobContext",
        "",
    ]


def test_the_page_links_what_it_names() -> None:
    text = "see docs/flow.md, see\n`periodic`, see `nothing`; `app.batches`, not `periodic`"
    assert reference.with_links(text, Place("app", "App")) == (
        "see [flow.md](../flow.md), see\n[`periodic`](schedules.md#appperiodic), see `nothing`; "
        "[`app.batches`](batches.md#appbatches), not `periodic`"
    )
    assert reference.with_links("`app.batches`", Place("batches", "BatchCounts")) == (
        "[`app.batches`](#appbatches)"
    )
    text = "`app.batches`, see `app.batches`"
    assert reference.with_links(text, Place("batches", "app.batches")) == (
        "`app.batches`, see [`app.batches`](#appbatches)"
    )


def test_a_name_that_several_classes_have_is_looked_up_in_its_own() -> None:
    assert reference.with_links("see `remove`", Place("app", "App")) == "see `remove`"
    assert reference.with_links("see `remove`", Place("limits", "app.groups")) == (
        "see [`remove`](#removepattern--bynone---bool-remove_async-1)"
    )


def test_a_second_heading_of_one_name_has_a_number_in_its_anchor() -> None:
    anchors: set[str] = set()
    assert [reference.add_anchor("`lock`", anchors) for _ in range(3)] == [
        "lock",
        "lock-1",
        "lock-2",
    ]


def test_every_public_name_of_the_package_is_on_the_page() -> None:
    values = [*[entry.value for entry in entries()], *all_errors()]
    for name in inturn.__all__:
        assert getattr(inturn, name) in values, name


def test_a_class_on_the_page_is_in_the_package_unless_its_heading_names_a_module() -> None:
    classes = [each for each in entries() if inspect.isclass(each.value) and "." not in each.name]
    for name, value in classes:
        assert name in inturn.__all__, f"{name}: where from?"
        assert getattr(inturn, name) is value


@pytest.mark.parametrize(
    "named", [*ALL, *(Named(error.__name__, error) for error in all_errors())], ids=lambda n: n.name
)
def test_every_public_name_says_what_it_is(named: Named) -> None:
    assert any(not code for _, code in blocks(named.doc))


@pytest.mark.parametrize("lock", all_locks(), ids=lambda lock: lock.name)
def test_every_lock_says_what_it_is(lock: Named) -> None:
    assert reference.first_sentence(lock.value)


@pytest.mark.parametrize("entry", list(entries()), ids=lambda entry: entry.name)
def test_everything_that_people_use_has_an_example(entry: Named) -> None:
    assert any(examples(each) for each in (entry, *members(entry)))


class Supplier:
    """A supplier that is closed when it is first asked."""

    def __init__(self) -> None:
        self.asked = 0

    async def is_open(self) -> bool:
        self.asked += 1
        return self.asked > 1


@contextmanager
def worker(app: App) -> Iterator[None]:
    """Run a worker beside an example that waits for results."""
    with start_blocking_portal() as portal:
        running = portal.start_task_soon(partial(app.run_worker_async, wait=True))
        try:
            yield
        finally:
            running.cancel()


@pytest.fixture
def scope(
    dsn: str, databases: Databases, monkeypatch: pytest.MonkeyPatch
) -> Iterator[dict[str, Any]]:
    """The names that the examples can use."""
    with psycopg.connect(dsn) as connection:
        connection.execute(TABLES)
    monkeypatch.setenv("INTURN_TEST_DSN", databases.server_dsn)
    app = App(dsn, worker_defaults={"install_signal_handlers": False})
    monkeypatch.setitem(sys.modules, "shop", ModuleType("shop"))
    monkeypatch.setitem(sys.modules, "shop.tasks", tasks := ModuleType("shop.tasks"))
    tasks.__dict__["app"] = app

    @app.task(name="write")
    def write(letter: str) -> None: ...

    @app.task(name="ship")
    def ship(order: int) -> None: ...

    @app.task(name="report")
    def report(day: int) -> int:
        return 42

    engine = create_engine(
        "postgresql+psycopg://", creator=lambda: psycopg.connect(dsn), poolclass=NullPool
    )
    environment = EnvironmentContext(Config(), ScriptDirectory(str(sql.find_folder("migrations"))))
    with Queue(app, dsn) as queue, engine.connect() as of_alembic, Session(engine) as session:
        yield GIVEN | NAMES | {
            "url": URL.create(
                "postgresql+psycopg", query={k: str(v) for k, v in conninfo_to_dict(dsn).items()}
            ),
            "address": f"postgresql://?{urlencode(conninfo_to_dict(dsn))}",
            "app": app, "queue": queue, "write": write, "ship": ship, "report": report,
            "dsn": dsn, "test_dsn": dsn, "supplier": Supplier(), "context": environment,
            "create_my_tables": lambda dsn: None, "metadata": MetaData(), "connection": of_alembic,
            "session": session, "psycopg": psycopg, "time": time, "datetime": datetime,
            "timedelta": timedelta, "UTC": UTC, "FastAPI": FastAPI, "Any": Any, "P": P, "R": T,
            "Callable": Callable, "Unpack": Unpack, "Status": Status,
            "lifespan": lifespan.lifespan, "ignoring": ignoring,
        }  # fmt: skip
    with psycopg.connect(dsn) as connection:
        connection.execute("DROP TABLE orders, accounts")


@pytest.mark.parametrize("code", CODE)
def test_an_example_runs(code: str, scope: dict[str, Any], request: pytest.FixtureRequest) -> None:
    if "inturn.django import" in reference.with_imports(code):
        request.getfixturevalue("django")  # settings, and a database of its own
        scope["connector_params"] = connector_params
    app, queue = scope["app"], scope["queue"]
    compiled = compile(
        code, "<example>", "exec", flags=ast.PyCF_ALLOW_TOP_LEVEL_AWAIT, dont_inherit=True
    )
    with worker(app) if ".result" in code else nullcontext():
        if compiled.co_flags & inspect.CO_COROUTINE:
            anyio.run(partial(eval, compiled, scope))
        else:
            exec(compiled, scope)  # noqa: S102 (our own documentation)
    run_what_it_left(app, queue)
    assert [job for job in queue.jobs() if job.status is Status.FAILED] == []


def run_what_it_left(app: App, queue: Queue) -> None:
    """Run the tasks that an example declared and the jobs that it deferred."""
    for task in app.tasks.values():
        if task.names and task.names <= ARGUMENTS.keys():
            task.defer(**{name: ARGUMENTS[name] for name in task.names})
    for lane in app.lanes.list():
        app.lanes.resume(lane.lock)
    for job in queue.jobs():
        if job.task not in app.tasks:  # of another program
            app.job_manager.cancel_job_by_id(job.id)
    queue.drain(advance=timedelta(days=1))
