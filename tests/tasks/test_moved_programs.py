"""What programs rely on that come from procrastinate."""

import sys
from pathlib import Path

import pytest

from inturn import App
from tests.conftest import Query


def test_a_task_named_in_another_program_gets_its_own_options_from_import_paths(
    app: App, query: Query, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "moved_tasks.py").write_text(
        "from moved_app import app\n\n"
        "@app.task(name='moved.send', queue='mail', priority=7, lock='smtp')\n"
        "def send() -> None: ...\n"
    )
    (tmp_path / "moved_app.py").write_text("app = None\n")
    monkeypatch.syspath_prepend(tmp_path)
    import moved_app

    monkeypatch.setattr(moved_app, "app", app)
    app.import_paths.append("moved_tasks")
    try:
        app.configure_task("moved.send").defer()
    finally:
        for name in ("moved_app", "moved_tasks"):
            sys.modules.pop(name, None)
    assert query("SELECT queue, priority, lock FROM jobs") == [("mail", 7, "smtp")]


def test_a_job_is_cancelled_once(app: App) -> None:
    @app.task
    def work() -> None: ...

    job_id = work.defer()
    assert app.job_manager.cancel_job_by_id(job_id)
    assert not app.job_manager.cancel_job_by_id(job_id)
    assert not app.job_manager.cancel_job_by_id(job_id, abort=True)


def test_a_schedule_in_the_past_means_now(app: App, query: Query) -> None:
    @app.task
    def work() -> None: ...

    work.configure(schedule_in={"seconds": -5}).defer()
    assert query("SELECT status::text FROM jobs") == [("todo",)]
