"""Tasks of a blueprint are deferred through the app that they were added to, and run there."""

import pytest

from inturn import App, Blueprint
from tests.conftest import Query

pytestmark = pytest.mark.anyio


async def test_every_app_has_the_builtin_tasks_for_itself(app: App, query: Query) -> None:
    later = App("postgresql://localhost:1/nowhere")
    name = "builtin:inturn.builtin_tasks.remove_old_jobs"
    assert list(later.tasks) == [name, "builtin:inturn.builtin_tasks.verify"]
    assert later.tasks[name] is not app.tasks[name]
    app.tasks[name].defer(max_hours=1)
    assert query("SELECT task, queue FROM jobs") == [(name, "builtin")]


async def test_tasks_of_a_blueprint_are_deferred_and_run_through_its_app(
    app: App, query: Query
) -> None:
    seen: list[str] = []
    inner, outer = Blueprint(), Blueprint()

    @inner.task(name="note", aliases=["old"])
    async def note(word: str) -> None:
        seen.append(word)

    urgent = note.configure(priority=5)  # before anybody knows the app
    outer.add_tasks_from(inner, namespace="inner")
    app.add_tasks_from(outer, namespace="outer")
    note.defer("sync")
    urgent.defer("urgent")
    async with app.open_async():
        await note.defer_async("async")
    app.configure_task("outer:inner:old").defer(word="by its alias")
    app.configure_task("outer:inner:note", allow_unknown=False).defer(word="by its name")
    assert query("SELECT DISTINCT task FROM jobs") == [("outer:inner:note",)]
    await app.run_worker_async()
    assert seen == ["urgent", "sync", "async", "by its alias", "by its name"]
