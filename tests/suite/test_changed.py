"""What `make test CHANGED=…` runs, and the reasons it gives."""

from pathlib import PurePath

from tests.changed import ITSELF, choose, mutated, reason_for


def test_a_module_runs_its_room_and_what_imports_it() -> None:
    reasons = choose(["queue/inturn/web/charts.py"])
    assert reasons["tests/web"] == "queue/inturn/web/charts.py changed"
    assert "tests/race/test_batches.py" not in reasons


def test_an_import_counts_through_others_and_through_lazy_names() -> None:
    """tests/worker imports App from the package, whose stub names the module."""
    reasons = choose(["queue/inturn/app.py"])
    assert reasons["tests/worker/test_worker.py"] == "imports inturn.app"
    assert "tests/schedules/test_cron.py" not in reasons


def test_an_sql_file_runs_the_rooms_of_the_engine_and_the_stories_that_mutate_it() -> None:
    name = "sql/functions/internal/claim/lane_tokens.sql"
    assert choose([name]) == dict.fromkeys(("tests/sql", "tests/privileges"), f"{name} changed")
    assert mutated([name]) == {"lane_tokens.sql": f"mutates {name}"}


def test_a_view_also_runs_the_tests_that_name_it() -> None:
    reasons = choose(["sql/views/paused_queues.sql"])
    assert reasons["tests/race/test_paused_queues.py"] == "names sql/views/paused_queues.sql"


def test_a_test_file_runs_itself_and_a_conftest_runs_its_folder() -> None:
    assert choose(["tests/web/test_jobs.py"]) == {"tests/web/test_jobs.py": ITSELF}
    assert "tests/locks" in choose(["tests/locks/conftest.py"])


def test_a_page_runs_the_tests_of_papers_and_those_that_name_it() -> None:
    reasons = choose(["docs/tutorial.md"])
    assert reasons["tests/package"] == "docs/tutorial.md changed"


def test_a_file_has_the_reason_of_its_folder() -> None:
    reasons = {"tests/web": "why"}
    assert reason_for(PurePath("tests/web/browser/test_keys.py"), reasons) == "why"
    assert reason_for(PurePath("tests/worker/test_worker.py"), reasons) is None
