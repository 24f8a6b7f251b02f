"""Calls that were planned while the tables were small do not read them whole once they have grown.

A session keeps its plans until autovacuum has analysed the tables again.
"""

from collections.abc import Iterator
from typing import Any, LiteralString

import psycopg

from tests.race.harness import Mutation, Stage, promise, story
from tests.race.test_lock_order import make_calls
from tests.sql.counted import Counter

UNTIL_PLANNED = 7  # calls; then the server keeps a statement's plan
MOST = 1000  # rows or pages that a node of a plan may meet
GROW: tuple[LiteralString, ...] = (
    "INSERT INTO jobs (created_at, queue, task, status, lock, limit_key, expires_at, scheduled_at, "
    "    worker_id, claim_id, started_at, fence) "
    "SELECT now(), 'other', 't', CASE kind WHEN 'head' THEN 'todo' ELSE kind END::job_status, "
    "    CASE WHEN kind IN ('head', 'blocked') THEN 'lane ' || n END, "
    "    CASE kind WHEN 'limited' THEN 'other' END, now() + interval '1 day', "
    "    CASE kind WHEN 'scheduled' THEN now() + interval '1 hour' END, owner.id, owner.id, "
    "    CASE kind WHEN 'doing' THEN now() END, CASE kind WHEN 'doing' THEN n END "
    "FROM unnest('{todo,head,blocked,limited,scheduled,doing}'::text[]) AS kind "
    "CROSS JOIN generate_series(1, 4000) AS n "
    "LEFT JOIN register_worker('other', 'h', 1, NULL, 1) AS owner(id) ON kind = 'doing'",
    "INSERT INTO lanes (lock, since, stopped, stopped_at) "
    "SELECT 'stopped ' || n, now(), 'paused', now() FROM generate_series(1, 4000) AS n",
    "INSERT INTO waits (lock, priority, id) "
    "SELECT 'lane ' || n, 0, 1000000 + n FROM generate_series(1, 4000) AS n",
    "INSERT INTO gates (key) SELECT 'limit:' || n FROM generate_series(1, 4000) AS n",
)
MAY_READ = {"reconcile": {"gates", "jobs", "limits"}, "limit": {"gates"}}  # on purpose


@story(
    Mutation("the planner sees the condition of an index", "retry_at_its_place.sql",
        "coalesce(status IN ('scheduled', 'pending'), false)",
        "status IN ('scheduled', 'pending')"),
    Mutation("and that of stopped lanes", "keep_or_leave.sql",
        "coalesce(stopped IS NOT NULL, false)", "stopped IS NOT NULL"),
    Mutation("lanes are found by a plain IN", "remove_waiting.sql",
        "AND lock = ANY (ARRAY(", "AND lock IN ((")
)  # fmt: skip
def test_calls_that_were_planned_on_small_tables(stage: Stage) -> None:
    calls = make_calls(stage.session(), stage.worker())
    # As small as new, whatever other stories have left in the database.
    stage.control.execute("VACUUM (FULL, ANALYZE) jobs, lanes, waits, gates, finished_jobs")
    with psycopg.connect(stage.dsn, autocommit=True, options="-c search_path=inturn") as caller:
        counter = Counter(caller)
        for call in calls.values():
            for _ in range(UNTIL_PLANNED):
                with caller.transaction(force_rollback=True):
                    caller.execute(call.text, call.parameters)
        for text in GROW:
            stage.control.execute(text)
        for name, call in calls.items():
            with caller.transaction(force_rollback=True), counter.count() as work:
                caller.execute(call.text, call.parameters)
            for plan in work.plans:
                large = {table for table, met in scans(plan["Plan"]) if met > MOST}
                text = " ".join(plan["Query Text"].split())
                may = MAY_READ.get(name, set())
                promise(large <= may, f"{name} reads much of {large}: {text}")


def scans(node: dict[str, Any]) -> Iterator[tuple[str, int]]:
    """Yield the table of each scan, and how many rows or pages the scan has met."""
    children = node.get("Plans", [])
    if "Relation Name" in node and "Scan" in node["Node Type"]:
        rows = node["Actual Rows"] + node.get("Rows Removed by Filter", 0)
        pages = _pages(node) - sum(map(_pages, children))
        yield node["Relation Name"], max(round(rows * node["Actual Loops"]), pages)
    for child in children:
        yield from scans(child)


def _pages(node: dict[str, Any]) -> int:
    pages: int = node["Shared Hit Blocks"] + node["Shared Read Blocks"]
    return pages
