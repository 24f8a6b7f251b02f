"""docs/moving-from-celery.md: each application runs after its move, and was real code before."""

import ast
import re
import subprocess
import sys
from dataclasses import dataclass
from inspect import signature
from operator import attrgetter
from pathlib import Path

import pytest

from inturn import App, JobContext, RetryStrategy
from tests.cli.calling import clean
from tests.conftest import Query
from tests.pages import read_blocks, run_script, write_files
from tests.waiting import wait_until

PAGE = "moving-from-celery.md"
TEXT = (Path(__file__).parents[2] / "docs" / PAGE).read_text(encoding="utf-8")
# The page names these versions.
PACKAGES = {
    "celery": "celery[redis]==5.7.0",
    "rq": "rq==3.0.0",
    "dramatiq": "dramatiq[redis]==2.2.1",
}


@dataclass(frozen=True)
class Move:
    """An application after its move: what starts it, and what its worker then prints."""

    module: str
    call: str
    prints: list[str]
    jobs: dict[str, int]  # by status, in the end


MOVES = [
    Move(
        "after_celery",
        "buy(7)",
        ["charge order 7, attempt 1", "charge order 7, attempt 2", "mail receipt 7"],
        {"succeeded": 2},
    ),
    Move(
        "after_rq",
        "upload('summer', ['a.jpg', 'b.jpg'])",
        ["resize a.jpg to 200", "resize b.jpg to 200", "publish summer"],
        {"succeeded": 3, "scheduled": 1},
    ),
    Move(
        "after_dramatiq",
        "import_catalogue(3)",
        ["load page 0", "load page 1", "load page 2", "loaded 3 pages"],
        {"succeeded": 4},
    ),
]


@pytest.mark.landing
@pytest.mark.parametrize("move", MOVES, ids=lambda move: move.module)
def test_the_application_does_the_same_after_its_move(
    move: Move, app_dsn: str, tmp_path: Path, query: Query
) -> None:
    assert write_files(PAGE, tmp_path) == []
    call = f"import {move.module} as m\nwith m.app.open(): m.{move.call}"
    run_script(call, tmp_path, app_dsn)
    command = [str(Path(sys.executable).with_name("queue")), "-a", f"{move.module}:app", "worker"]
    environment = clean({}) | {"INTURN_DSN": app_dsn, "PYTHONPATH": str(tmp_path)}
    with subprocess.Popen(
        command, cwd=tmp_path, env=environment, stdout=subprocess.PIPE, text=True
    ) as worker:
        try:
            wait_until(lambda: count_jobs(query) == move.jobs)
            worker.terminate()
            printed, _ = worker.communicate(timeout=60)
        finally:
            worker.kill()  # if it has not ended
    lines = [line for line in printed.splitlines() if line in move.prints]
    assert sorted(lines) == sorted(move.prints)
    assert lines[-1] == move.prints[-1]


def count_jobs(query: Query) -> dict[str, int]:
    return dict(query("SELECT status::text, count(*) FROM all_jobs GROUP BY 1"))


@pytest.mark.parametrize("package", PACKAGES)
def test_the_code_before_is_python_and_sends_the_same(package: str) -> None:
    """Both have the same functions with the same arguments, and print the same."""
    before, after = (
        next(block for block in read_blocks(PAGE) if block.startswith(f"# {when}_{package}.py\n"))
        for when in ("before", "after")
    )
    assert printed_by(before) == printed_by(after)


def printed_by(block: str) -> dict[str, list[str]]:
    """Return the first words of what each function prints."""
    functions = [node for node in ast.parse(block).body if isinstance(node, ast.FunctionDef)]
    return {
        node.name: [
            text.split()[0] for text in re.findall(r"print\(f?['\"](.+?)['\"]", ast.unparse(node))
        ]
        for node in functions
    }


OURS = [
    span
    for _, right in re.findall(r"^\|([^|]+)\|([^|]+)\|$", TEXT, re.MULTILINE)
    for span in re.findall(r"`([^`]+)`", right)
    if not span.startswith("queue ")  # tests/package/test_pages.py reads these
]


def test_our_words_in_the_tables_exist(app: App) -> None:
    calls = (
        app.task,
        app.task(count_jobs).configure,
        app.periodic,
        app.batch,
        app.limits.set,
        app.job_manager.cancel_job_by_id,
        app.job_manager.result,
        RetryStrategy,
    )
    options = {name for call in calls for name in signature(call).parameters}
    text = "\n".join(OURS)
    assert len(OURS) > 60
    assert set(re.findall(r"(?<!--)\b([a-z_]+)=", text)) - options == set()
    for path in re.findall(r"\bapp\.([a-z_.]+)", text):
        assert attrgetter(path)(app), path
    for name in re.findall(r"\bcontext\.([a-z_]+)", text):
        assert hasattr(JobContext, name), name


FACTS = """
import inspect, sys
sys.path.insert(0, ".")
import celery, dramatiq, rq, rq.cron
import before_celery, before_dramatiq, before_rq
from celery.app import defaults
from dramatiq.brokers import redis as dramatiq_redis
from dramatiq.middleware import AgeLimit, Retries, TimeLimit, default_middleware
from dramatiq.results import Results
from kombu.transport.redis import Channel
from rq.defaults import DEFAULT_RESULT_TTL
from rq.serializers import PickleSerializer, resolve_serializer
from rq.timeouts import JobTimeoutException

task, settings = celery.Task, celery.Celery().conf
assert (task.max_retries, task.default_retry_delay, Channel.visibility_timeout) == (3, 180, 3600)
assert not settings.task_acks_late and not settings.task_reject_on_worker_lost
assert settings.result_backend is None and settings.result_expires.days == 1
assert settings.task_time_limit is None and settings.worker_pool == "prefork"
assert settings.task_serializer == "json"
assert set(before_celery.app.tasks) > {"shop.charge", "shop.mail", "shop.add_up"}
assert before_celery.app.conf.beat_schedule["totals"]["task"] == before_celery.add_up.name

assert rq.Queue.DEFAULT_TIMEOUT == 180 and DEFAULT_RESULT_TTL == 500
assert resolve_serializer(None) is PickleSerializer
assert before_rq.queue.name == "media"
options = {"retry", "depends_on", "timeout", "ttl", "result_ttl", "unique", "at_front", "repeat"}
assert options <= set(inspect.signature(rq.Queue.enqueue_call).parameters)
assert {"interval", "cron"} <= set(inspect.signature(rq.cron.register).parameters)
assert "concurrency" in inspect.signature(rq.rate_limit.RateLimit).parameters

retries = Retries()
assert (retries.max_retries, retries.min_backoff, retries.max_backoff) == (20, 15_000, 604_800_000)
assert TimeLimit().time_limit == 600_000 and AgeLimit().max_age is None
assert dramatiq_redis.DEFAULT_HEARTBEAT_TIMEOUT == 60_000
assert dramatiq_redis.DEFAULT_DEAD_MESSAGE_TTL == 7 * 86_400_000
assert Results not in default_middleware
assert inspect.signature(Results).parameters["store_results"].default is False
assert before_dramatiq.load.options["max_age"] == 3_600_000
assert before_dramatiq.broker.get_declared_actors() == {"load", "report"}
"""


@pytest.mark.landing
def test_what_the_page_says_of_the_others_is_so_in_these_versions(tmp_path: Path) -> None:
    """They are installed for this test only. Nothing here needs a broker."""
    write_files(PAGE, tmp_path)
    target = tmp_path / "packages"
    pip = [sys.executable, "-m", "pip", "install", "--quiet", "--target", str(target)]
    subprocess.run([*pip, *PACKAGES.values()], check=True, timeout=400, capture_output=True)
    done = subprocess.run(
        [sys.executable, "-c", FACTS],
        cwd=tmp_path,
        env=clean({}) | {"PYTHONPATH": str(target)},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    said = ["Celery 5.7", "RQ 3.0", "Dramatiq 2.2"]
    assert [name for name in said if name not in TEXT] == []
