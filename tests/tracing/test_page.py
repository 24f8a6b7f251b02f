"""docs/tracing.md works as it stands, and without `tracing=` nothing is imported."""

import json
import subprocess
import sys
from pathlib import Path

import psycopg
import pytest

from tests.conftest import Query
from tests.pages import read_blocks, run_script, write_files

SCRIPT = """
import sys
import shop.spans
from opentelemetry import trace
from shop.tasks import app, thank
with app.open():
    child, deferring, middleware = sys.argv[1:]
    exec(deferring)
    exec(middleware)
    app.run_worker(
        wait=False, install_signal_handlers=False, worker_middleware=[note_tenant])
trace.get_tracer_provider().shutdown()
from inturn import App
from inturn.tracing import Tracing
exec(child)
"""
SEES = """
import sys
from inturn import App
app = App({dsn!r})
@app.task
async def add() -> None: ...
with app.open():
    add.defer()
    app.run_worker(wait=False, install_signal_handlers=False)
assert not [each for each in sys.modules if each.startswith("opentelemetry")]
"""


@pytest.mark.landing
def test_the_page_works_as_it_stands(app_dsn: str, tmp_path: Path) -> None:
    blocks = write_files("tracing.md", tmp_path)
    printed = run_script(SCRIPT, tmp_path, app_dsn, *blocks)
    spans, rest = [], printed
    while rest.strip():
        span, end = json.JSONDecoder().raw_decode(rest.lstrip())
        spans.append(span)
        rest = rest.lstrip()[end:]
    sent, run = spans
    assert (sent["name"], run["name"]) == ("send mail", "process mail")
    assert run["attributes"]["tenant"] == "acme"
    assert run["links"][0]["context"] == sent["context"]
    assert run["resource"]["attributes"]["service.name"] == "shop"


def test_the_statement_of_the_page_defers_a_job_with_its_trace(dsn: str, query: Query) -> None:
    [statement] = read_blocks("tracing.md", "sql")
    with psycopg.connect(dsn) as connection:
        connection.execute(statement.encode())
    [stored] = read_blocks("tracing.md", "json")
    assert query("SELECT headers FROM jobs") == [(json.loads(stored),)]


def test_nothing_of_opentelemetry_is_imported_unless_you_ask_for_it(app_dsn: str) -> None:
    done = subprocess.run(
        [sys.executable, "-c", SEES.format(dsn=app_dsn)],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == 0, done.stderr
