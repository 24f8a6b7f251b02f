"""`queue jobs`."""

import json
import shlex
from pathlib import Path

import psycopg
import pytest

from tests.cli.conftest import Answer, Run, Start, Until
from tests.cli.engine import Engine


@pytest.fixture
def mixed(engine: Engine) -> Engine:
    """One job in each state."""
    engine.at("2026-01-31 14:00:00+00")
    failed = engine.defer("send", "a")
    engine.fail(engine.claim(), None, "Traceback:\nKeyError: 'to [bold]'")
    engine.defer("send", "a")  # to be done
    engine.claim()
    engine.defer("send", "a")
    engine.defer("print", queue="paper")
    engine.defer("print", delay="1 hour")
    assert list(engine.statuses()) == [failed + number for number in range(5)]
    return engine


def ids(output: str) -> list[int]:
    return [int(row["id"]) for row in json.loads(output)]


@pytest.mark.parametrize(
    ("asked", "found"),
    [
        ([], [5, 4, 3, 2, 1]),
        (["--status", "failed"], [1]),
        (["--status", "doing", "--status", "scheduled"], [5, 2]),
        (["--queue", "paper"], [4]),
        (["--task", "send"], [3, 2, 1]),
        (["--lock", "a", "--status", "blocked"], [3]),
        (["--status", "todo"], [4]),
        (["--lock", "b"], []),
        (["--queue", "paper", "--task", "send"], []),
    ],
)
def test_a_list_contains_the_jobs_that_match_the_filter(
    mixed: Engine, queue: Run, asked: list[str], found: list[int]
) -> None:
    assert ids(queue("jobs", "list", "--json", *asked).stdout) == found
    assert queue("jobs", "count", *asked).stdout == f"{len(found)}\n"
    assert json.loads(queue("jobs", "count", "--json", *asked).stdout) == {
        "count": len(found),
        "or_more": False,
    }


def test_a_list_for_people(mixed: Engine, queue: Run) -> None:
    lines = [line.rstrip() for line in queue("jobs", "list").stdout.splitlines()]
    assert lines[0].split() == [
        "ID",
        "STATUS",
        "TASK",
        "QUEUE",
        "LOCK",
        "ATTEMPTS",
        "DEFERRED",
        "WHEN",
        "ERROR",
    ]
    assert lines[1].split() == [
        "5",
        "scheduled",
        "print",
        "default",
        "0",
        "0s",
        "ago",
        "in",
        "1h00m",
    ]
    assert lines[5].endswith("KeyError: 'to [bold]'")


def test_a_list_fits_the_width(mixed: Engine, queue: Run) -> None:
    mixed.defer("a" * 300, "b" * 300)
    lines = queue("jobs", "list", COLUMNS="80").stdout.splitlines()
    assert len(lines) == 7
    assert max(map(len, lines)) <= 80
    assert lines[1].startswith("6   todo ")
    assert "…" in lines[1]


def test_a_narrow_list_leaves_columns_out_before_it_cuts_tasks_and_locks(
    mixed: Engine, queue: Run
) -> None:
    lines = queue("jobs", "list", COLUMNS="60").stdout.splitlines()
    assert lines[0].split() == ["ID", "STATUS", "TASK", "LOCK", "WHEN", "ERROR"]
    assert "KeyError: 'to [bold]'" in lines[5]
    assert "…" not in "".join(lines)


def test_a_piped_list_is_padded_to_no_error(mixed: Engine, queue: Run) -> None:
    mixed.query("UPDATE finished_jobs SET errors = %s::jsonb", f'[{{"error": "{"e" * 5000}"}}]')
    lines = queue("jobs", "list").stdout.splitlines()
    assert lines[5].endswith("e" * 5000)
    assert max(map(len, lines[:5])) < 100


def test_a_job_that_waits_for_a_retry_shows_when_it_is_due(engine: Engine, queue: Run) -> None:
    engine.at("2026-01-31 14:00:00+00")
    engine.defer("t")
    engine.fail(engine.claim(), "10 minutes", "no")
    engine.at("2026-01-31 14:00:30+00")
    (line,) = queue("jobs", "list").stdout.splitlines()[1:]
    assert "in 9m30s" in line


def test_a_job_that_succeeded_at_last_shows_no_error(engine: Engine, queue: Run) -> None:
    engine.defer("t")
    engine.fail(engine.claim(), "0 s", "no such host")
    assert "no such host" in queue("jobs", "list").stdout
    id, claim_id = engine.claim()
    engine.query(
        "SELECT finish((SELECT id FROM workers), '{default}', 0, ARRAY[%s::bigint], "
        "ARRAY[%s::uuid], '{succeeded}', ARRAY[NULL::jsonb])",
        *(id, claim_id),
    )
    assert "no such host" not in queue("jobs", "list").stdout
    (listed,) = json.loads(queue("jobs", "list", "--json").stdout)
    assert listed["last_error"] is None
    shown = queue("jobs", "show", str(id)).stdout
    assert "no such host" in shown.partition("\nearlier attempts:\n")[2]
    assert "error" not in shown


def test_nothing_to_list_is_said_with_and_without_a_filter(engine: Engine, queue: Run) -> None:
    assert queue("jobs", "list").stderr == "There are no jobs.\n"
    assert queue("jobs", "list", "--queue", "mail").stderr == "No jobs match.\n"


def test_colour_is_for_terminals_and_can_be_declined(mixed: Engine, queue: Run) -> None:
    assert "\x1b" not in queue("jobs", "list").stdout
    assert "\x1b" in queue("jobs", "list", FORCE_COLOR="1", TERM="xterm-256color").stdout
    declined = queue("jobs", "list", FORCE_COLOR="1", TERM="xterm-256color", NO_COLOR="1").stdout
    assert "\x1b[3" not in declined


def test_a_list_says_how_much_it_leaves_out(mixed: Engine, queue: Run) -> None:
    ended = queue("jobs", "list", "--limit", "2", "--task", "send", "--json")
    assert (ids(ended.stdout), ended.stderr.splitlines()) == ([3, 2], [
        "… 1 more (raise --limit to see them)",
        "The next page: queue jobs list --task send --before-id 2 --limit 2",
    ])  # fmt: skip


def test_counting_stops_at_ten_thousand(engine: Engine, queue: Run) -> None:
    engine.query(
        "INSERT INTO jobs (created_at, status, task) "
        "SELECT clock(), 'todo', 't' FROM generate_series(1, 10100)"
    )
    assert queue("jobs", "count").stdout == "10,000 or more\n"
    told = queue("jobs", "list", "--limit", "1").stderr
    assert told.startswith("… at least 9,999 more (raise --limit to see them)\n")


FREE = """
INSERT INTO jobs (created_at, status, task) SELECT clock(), 'todo', 't'
FROM generate_series(1, 10100)
"""


def test_a_list_says_if_it_did_not_search_all_live_jobs(engine: Engine, queue: Run) -> None:
    engine.query(FREE)  # so that it is not among the first free jobs either
    rare = engine.defer("rare")
    words = ["jobs", "list", "--task", "rare", "--json"]
    assert ids(queue(*words).stdout) == [rare]
    engine.query(FREE)
    listed = queue(*words)
    said = "There may be more: only the newest 10,000 live jobs were searched. To search more: "
    assert (ids(listed.stdout), listed.stderr.startswith(said)) == ([], True)
    assert queue("jobs", "count", "--task", "rare").stdout == "0 or more\n"
    command = listed.stderr.partition("To search more: ")[2].strip()
    assert command == "queue jobs list --task rare --search 100000 --limit 50"
    further = queue(*shlex.split(command)[1:], "--json")
    assert (ids(further.stdout), further.stderr) == ([rare], "")
    newest = engine.defer("rare")
    assert queue(*words, "--limit", "1").stderr.startswith(said)
    assert ids(queue(*words).stdout) == [newest]
    # Older than that, there is nothing but what was searched.
    assert queue(*words, "--before-id", "5000").stderr == ""


def test_both_halves_of_a_list_may_be_cut(engine: Engine, queue: Run) -> None:
    engine.query(ENDED)
    engine.query(FREE)
    engine.query(FREE)
    said = queue("jobs", "list", "--task", "rare").stderr.splitlines()[1]
    assert said == (
        "There may be more: only the newest 10,000 live jobs and the newest 10,000 that have ended "
        "were searched. To search more: queue jobs list --task rare --search 100000 --limit 50"
    )


def test_a_job_is_shown(mixed: Engine, queue: Run) -> None:
    lines = queue("jobs", "show", "1").stdout.splitlines()
    assert lines[:2] == ["job        1 failed", "task       send"]
    assert "finished   14:00:00Z (0s ago)" in lines
    assert lines[-3:] == [
        "errors:",
        "  attempt 1 failed 14:00:00Z (0s ago) after 0s on worker w: Traceback:",
        "      KeyError: 'to [bold]'",
    ]
    job = json.loads(queue("jobs", "show", "1", "--json").stdout)
    assert (job["id"], job["finished_at"], job["args"]) == ("1", "2026-01-31T14:00:00Z", {})


def test_a_job_shows_its_result_timeout_and_queueing_lock(mixed: Engine, queue: Run) -> None:
    mixed.query(
        "UPDATE finished_jobs SET queueing_lock = 'k', timeout = '90 s', result = '{\"n\": 1}' "
        "WHERE id = 1 RETURNING 1"
    )
    words = [line.split() for line in queue("jobs", "show", "1").stdout.splitlines()]
    assert [line for line in (["queueing", "lock", "k"], ["timeout", "90s"],
                              ["result", '{"n":', "1}"])
            if line not in words] == []  # fmt: skip
    job = json.loads(queue("jobs", "show", "1", "--json").stdout)
    assert (job["queueing_lock"], job["timeout"], job["result"]) == ("k", 90, {"n": 1})


def test_a_job_shows_its_headers(mixed: Engine, queue: Run) -> None:
    mixed.query(
        "UPDATE finished_jobs SET headers = %s::jsonb WHERE id = 1", '{"tenant": "ä\\u001b"}'
    )
    assert r'headers    {"tenant": "ä\u001b"}' in queue("jobs", "show", "1").stdout.splitlines()


def test_a_job_shows_how_far_it_is_even_after_its_end(mixed: Engine, queue: Run) -> None:
    for done, total, text in ((2_500, 10_000, "page \x1b[31m9"), (7, None, None), (1, 0, "odd")):
        mixed.query(
            "SELECT report_progress(ARRAY[id], ARRAY[fence], ARRAY[%s::bigint], ARRAY[%s::bigint], "
            "ARRAY[%s]) FROM all_jobs WHERE id IN (1, 2)",
            done, total, text,
        )  # fmt: skip
        shown = {
            2_500: "2,500 of 10,000 (25 %) at 14:00:00Z (0s ago): page \\x1b[31m9",
            7: "7 at 14:00:00Z (0s ago)",
            1: "1 of 0 at 14:00:00Z (0s ago): odd",
        }[done]
        for id in "12":
            lines = queue("jobs", "show", id).stdout.splitlines()
            assert f"progress   {shown}" in lines
    explained = queue("jobs", "explain", "2").stdout.splitlines()
    assert "progress          1 of 0 at 14:00:00Z (0s ago): odd" in explained
    job = json.loads(queue("jobs", "show", "1", "--json").stdout)
    at = "2026-01-31T14:00:00Z"
    assert job["progress"] == {"done": 1, "total": 0, "text": "odd", "updated_at": at}
    assert json.loads(queue("jobs", "show", "4", "--json").stdout)["progress"] is None


def test_a_job_is_explained(mixed: Engine, queue: Run) -> None:
    held = json.loads(queue("jobs", "explain", "3", "--json").stdout)
    assert held[0] == {
        "reason": "lane held",
        "detail": "by job 2 (send) since 2026-01-31T14:00:00Z; the lane continues when it ends",
        "unblock": None,
    }
    assert queue("jobs", "explain", "5").stdout.splitlines()[0] == (
        "scheduled         until 15:00:00Z (in 1h00m)"
    )


def test_the_advice_of_explain_is_quoted_for_a_shell(engine: Engine, queue: Run) -> None:
    engine.query("SELECT pause_lane('it''s')")
    id = engine.defer("t", "it's")
    reasons = json.loads(queue("jobs", "explain", str(id), "--json").stdout)
    assert reasons[0]["unblock"] == """queue lanes resume 'it'"'"'s'"""


@pytest.mark.parametrize("command", ["show", "explain", "retry", "cancel", "delete"])
def test_a_job_that_is_not_there_is_exit_3(engine: Engine, queue: Run, command: str) -> None:
    yes = ["--yes"] if command in ("cancel", "delete") else []
    ended = queue("jobs", command, "9001", *yes)
    assert (ended.returncode, ended.stdout) == (3, "")
    assert ended.stderr == "error: There is no job 9001. To see the newest ones: queue jobs list\n"


@pytest.mark.parametrize("wrong", ["0", "-1", "x", str(2**63)])
def test_an_invalid_id_is_exit_2(queue: Run, wrong: str) -> None:
    assert queue("jobs", "show", "--", wrong).returncode == 2


def test_jobs_are_retried(mixed: Engine, queue: Run) -> None:
    ended = queue("jobs", "retry", "1", "5", "--json")
    assert (ended.returncode, json.loads(ended.stdout)) == (
        0,
        [{"id": "1", "now": "blocked"}, {"id": "5", "now": "todo"}],
    )
    assert [mixed.statuses()[id] for id in (1, 5)] == ["blocked", "todo"]
    waiting = queue("jobs", "retry", "2")
    assert (waiting.returncode, waiting.stdout) == (4, "")
    assert "Job 2 is doing and cannot be retried" in waiting.stderr


@pytest.mark.parametrize("ids", ["1 2", "2 1"])
def test_jobs_that_are_retried_together_run_in_their_order(
    ids: str, engine: Engine, queue: Run
) -> None:
    """The younger one had halted the lane. Alone, it would go before all others."""
    engine.sign_on()
    for policy in ("continue", "halt", "continue"):
        engine.defer("t", "lane", on_failure=policy)
    engine.fail(engine.claim(), None, "boom")
    engine.fail(engine.claim(), None, "boom")
    ended = queue("jobs", "retry", *ids.split(), "--json")
    assert ended.returncode == 0
    assert [done["id"] for done in json.loads(ended.stdout)] == ids.split()
    order = []
    for _ in range(3):
        order.append(engine.claim())
        engine.fail(order[-1], None, "boom")
        engine.query("SELECT resume_lane('lane')")
    assert [id for id, _ in order] == [1, 2, 3]


def test_jobs_are_cancelled_only_if_somebody_confirms(
    mixed: Engine, queue: Run, answer: Answer
) -> None:
    alone = queue("jobs", "cancel", "3", "4")
    assert alone.returncode == 2
    assert alone.stderr.endswith("To proceed, run: queue jobs cancel --yes 3 4\n")
    declined = answer("n", "jobs", "cancel", "3", "4")
    assert declined.returncode == 6
    assert "Cancel 2 jobs (1 lane: a)? [y/N]" in declined.stderr
    assert [mixed.statuses()[id] for id in (3, 4)] == ["blocked", "todo"]
    agreed = answer("y", "jobs", "cancel", "3", "4")
    assert agreed.returncode == 0
    assert [mixed.statuses()[id] for id in (3, 4)] == ["cancelled", "cancelled"]


def test_a_failure_does_not_stop_the_other_changes_and_is_exit_5(mixed: Engine, queue: Run) -> None:
    ended = queue("jobs", "cancel", "--yes", "99", "2", "1", "3", "--json")
    assert (ended.returncode, json.loads(ended.stdout)) == (5, [{"id": "3", "now": "cancelled"}])
    assert [line.partition(". ")[0] for line in ended.stderr.splitlines()] == [
        "error: There is no job 99",
        "error: A worker has already claimed job 2",
        "error: Job 1 has already ended: failed.",
    ]


def test_a_list_without_a_width_is_printed_in_full(mixed: Engine, queue: Run) -> None:
    assert queue("jobs", "list", COLUMNS="0") == queue("jobs", "list")


def test_what_was_changed_before_an_error_is_printed(mixed: Engine, queue: Run) -> None:
    with psycopg.connect(mixed.dsn) as other:
        other.execute("SELECT FROM inturn.jobs WHERE id = 4 FOR UPDATE")
        ended = queue("jobs", "delete", "--yes", "5", "4", PGOPTIONS="-c lock_timeout=50ms")
    assert ended.returncode == 69
    assert ended.stdout.split() == ["ID", "NOW", "5", "deleted"]


def test_jobs_are_deleted_but_not_while_they_are_done(mixed: Engine, queue: Run) -> None:
    assert queue("jobs", "delete", "1").returncode == 2
    assert queue("jobs", "delete", "1", "3", "--yes").returncode == 0
    assert list(mixed.statuses()) == [2, 4, 5]
    ended = queue("jobs", "delete", "2", "--yes")
    assert (ended.returncode, "queue jobs cancel --abort 2" in ended.stderr) == (4, True)


def test_whoever_deletes_a_parent_is_told_of_the_jobs_that_wait_for_it(
    engine: Engine, queue: Run
) -> None:
    parent = engine.defer("send")
    engine.query(
        "SELECT defer_jobs('{print}', '{\"{}\"}', NULL, NULL, NULL, NULL, NULL, p_after => ARRAY[%s],"
        " p_after_of => '{1}', p_on_parent => '{hold}')",
        parent,
    )
    engine.fail(engine.claim(), None, "boom")
    engine.query("SELECT claim((SELECT id FROM workers), '{default}', 1)")
    asked = queue("jobs", "delete", str(parent))
    assert "Job 2 (print) waits until job 1 has succeeded" in asked.stderr
    assert "queue jobs retry 2" in asked.stderr
    assert "Job 2" not in queue("jobs", "delete", str(parent), "--yes").stderr


@pytest.mark.landing
def test_a_job_that_runs_is_aborted_by_its_worker(
    engine: Engine, queue: Run, start: Start, until: Until, folder: Path
) -> None:
    id = engine.defer("tasks.stay")
    start("-a", "tasks:app", "worker", "--dsn", engine.dsn)
    until((folder / "staying").exists)
    assert queue("jobs", "cancel", str(id), "--yes").returncode == 4
    ended = queue("jobs", "cancel", str(id), "--abort", "--yes")
    assert (ended.returncode, "asked to abort" in ended.stdout) == (0, True)
    until(lambda: engine.statuses() == {id: "aborted"})


ENDED = """
INSERT INTO finished_jobs (id, created_at, finished_at, status, on_retry, on_failure, priority,
    attempts, queue, task, lock, args, errors)
SELECT -n, now(), now() - n * interval '1 s', CASE WHEN n %% 6000 = 0 THEN 'failed' ELSE 'succeeded'
    END::job_status, 'hold', 'continue', 0, 1, 'default', 't', 'lane ' || n %% 7500, '{}', '[]'
FROM generate_series(1, 30000) AS n
"""


def test_a_list_ends_with_the_command_for_the_next_page(engine: Engine, queue: Run) -> None:
    for number in range(9):
        engine.defer(queue="mail" if number % 2 else "default")
    words = ["jobs", "list", "--queue", "default", "--limit", "2"]
    seen: list[list[int]] = []
    for _ in range(2):
        page = queue(*words, "--json")
        seen.append(ids(page.stdout))
        command = page.stderr.partition("The next page: ")[2].strip()
        assert command.startswith("queue jobs list --queue default --before-id ")
        words = shlex.split(command)[1:]
    last = queue(*words, "--json")
    assert [*seen, ids(last.stdout)] == [[9, 7], [5, 3], [1]]
    assert last.stderr == ""
    assert "The next page" not in queue("jobs", "list", "--limit", "9").stderr


def test_a_filter_that_matches_rarely_says_how_to_look_further(engine: Engine, queue: Run) -> None:
    engine.query(ENDED)
    listed = queue("jobs", "list", "--lock", "lane 10", "--json")
    assert ids(listed.stdout) == [-10, -7510]
    remark = "There may be more: only the newest 10,000 jobs that have ended were searched. "
    assert listed.stderr.startswith(remark)
    command = listed.stderr.partition("To search more: ")[2].strip()
    assert command == "queue jobs list --lock 'lane 10' --search 100000 --limit 50"
    further = queue(*shlex.split(command)[1:], "--json")
    assert (ids(further.stdout), further.stderr) == ([-10, -7510, -15010, -22510], "")
    # Failed jobs are found however many have succeeded.
    failed = queue("jobs", "list", "--status", "failed", "--json")
    assert (ids(failed.stdout), failed.stderr) == ([-6000, -12000, -18000, -24000, -30000], "")
    assert queue("jobs", "count", "--status", "failed").stdout == "5\n"
    assert queue("jobs", "count", "--lock", "lane 10").stdout == "2 or more\n"
