"""An app over eight cells on two servers, as its user sees it."""

import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from datetime import timedelta
from types import SimpleNamespace

import psycopg
import pytest
import sqlalchemy
from psycopg.conninfo import conninfo_to_dict

from inturn import App, JobContext, RetryDecision, RetryStrategy, Task
from inturn.cells.connector import Cells
from inturn.cells.creating import create_cells
from inturn.database.connectors import PsycopgConnector
from inturn.errors import (
    AlreadyEnqueued,
    BadArgument,
    CellsUnanswered,
    ConfigurationError,
    DatabaseUnavailable,
    JobFailed,
    PartlyDeferred,
    WrongCell,
)
from inturn.model import Job
from inturn.tasks.lanes import cell_of
from inturn.tasks.options import NewJob
from inturn.tracing import Tracing
from tests.cells.conftest import AT, COUNT, WORKER
from tests.cells.load import query
from tests.cells.test_refusals import in_cell
from tests.tracing.conftest import Spans

pytestmark = pytest.mark.anyio
LOCKS = [in_cell(cell, "lane") for cell in range(COUNT)]
Double = Task[[int], int]
AWAY = "postgresql://postgres@127.0.0.1:1/cells"


@pytest.fixture
def task(app: App) -> Double:
    @app.task(name="double")
    def double(n: int) -> int:
        return 2 * n

    return double


def run_all(app: App) -> None:
    for cell in range(COUNT):
        app.cell(cell).run_worker()


def test_each_lane_runs_in_its_cell_and_results_come_from_there(app: App, task: Double) -> None:
    jobs = [task.configure(lock=lock).defer(n) for n, lock in enumerate(LOCKS)]
    assert [job % 1024 for job in jobs] == list(range(COUNT))
    assert app.job_manager.get_job_status(jobs[6]) == "todo"
    assert [each.reason for each in app.job_manager.explain(jobs[6])] != []
    assert app.job_manager.cancel_job_by_id(jobs[7])
    run_all(app)
    assert [job.result(timeout=60) for job in jobs[:7]] == [2 * n for n in range(7)]
    assert app.job_manager.retry_job_by_id(jobs[7])
    assert [job.id for job in app.job_manager.list_jobs(status="todo")] == [jobs[7]]
    [counts] = app.job_manager.list_queues()
    assert (counts["succeeded"], counts["todo"]) == (7, 1)
    assert app.verify(timedelta(hours=1)).is_kept
    assert app.check_connection()


async def test_the_same_in_an_event_loop(homes: list[PsycopgConnector]) -> None:
    app = App(cells=homes, worker_defaults=WORKER)

    @app.task
    async def double(n: int) -> int:
        if n < 10:
            return int(
                await (await double.configure(lock=LOCKS[n]).defer_async(n + 10)).result_async(60)
            )
        return 2 * n

    async with app.open_async():
        manager = app.job_manager
        new = [double.configure(lock=lock).make_new_job(n + 20) for n, lock in enumerate(LOCKS)]
        jobs = await manager.batch_defer_jobs_async(new)
        for cell in range(COUNT):
            await app.cell(cell).run_worker_async()
        assert [await job.result_async(60) for job in jobs] == [2 * n + 40 for n in range(COUNT)]
        [counts] = await manager.list_queues_async()
        assert counts["succeeded"] == COUNT
        assert len(await manager.list_jobs_async(limit=3)) == 3
        assert [job.id for job in await manager.list_jobs_async(lock=LOCKS[6])] == [jobs[6]]
        report = double.configure(lock=LOCKS[5], task_kwargs={"n": 1})
        async with app.batch("import", callback=report) as batch:
            assert batch % 1024 == 5
    away = App(cells=[*homes[:7], PsycopgConnector(AWAY, schema="inturn_07", timeout=1)])
    async with away.open_async():
        with pytest.raises(PartlyDeferred) as part:
            await away.job_manager.batch_defer_jobs_async(new)
    assert part.value.left == [7]


def test_a_task_defers_into_other_cells(app: App) -> None:
    seen = []

    @app.task
    def start() -> None:
        end.configure(lock=LOCKS[7]).defer()

    @app.task
    def end() -> None:
        seen.append("end")

    start.configure(lock=LOCKS[0]).defer()
    app.cell(0).run_worker()
    app.cell(7).run_worker()
    assert seen == ["end"]


def test_a_retry_cannot_move_a_job_to_a_lane_elsewhere(app: App) -> None:
    class Moving(RetryStrategy):
        def get_retry_decision(self, *, exception: object, job: Job) -> RetryDecision | None:
            once = RetryDecision(retry_in={"seconds": 0}, lock=LOCKS[6])
            return once if job.attempts == 0 else None

    @app.task(retry=Moving())
    def fail() -> None:
        raise ValueError

    job = fail.configure(lock=LOCKS[2]).defer()
    app.cell(2).run_worker()
    with pytest.raises(
        JobFailed, match=f"lock: '{LOCKS[6]}' is in cell 6, but the job is in cell 2"
    ):
        job.result(timeout=60)


def test_a_job_goes_to_its_cell_even_if_it_is_deferred_through_another(app: App) -> None:
    @app.task(pass_context=True)
    def start(context: JobContext) -> None:
        assert isinstance(context.app, App)
        context.app.configure_task("elsewhere", lock=LOCKS[7]).defer()
        app.cell(0).configure_task("elsewhere", lock=LOCKS[2]).defer()

    start.configure(lock=LOCKS[0]).defer()
    app.cell(0).run_worker()
    waiting = app.job_manager.list_jobs(status="todo")
    assert {(job.lock, job.id % 1024) for job in waiting} == {(LOCKS[7], 7), (LOCKS[2], 2)}


def test_a_task_defers_in_its_own_transaction(app: App) -> None:
    refused: list[str] = []

    @app.task(pass_context=True)
    def start(context: JobContext) -> None:
        with context.transaction() as connection:
            end.configure(lock=LOCKS[3], connection=connection).defer()
            try:
                end.configure(lock=LOCKS[6], connection=connection).defer()
            except BadArgument as error:
                refused.append(str(error))

    @app.task
    def end() -> None: ...

    start.configure(lock=LOCKS[3]).defer()
    app.cell(3).run_worker()
    assert [job.status for job in app.job_manager.list_jobs()] == ["succeeded"] * 2
    assert len(refused) == 1
    assert f"but '{LOCKS[6]}' is for cell 6 (" in refused[0]


def test_lanes_limits_and_pauses(app: App, task: Double) -> None:
    task.configure(lock=LOCKS[3]).defer(1)
    assert app.lanes.pause(LOCKS[3], reason="no paper", by="eve")
    app.queues.pause("mail")
    assert [lane.lock for lane in app.lanes.list()] == [LOCKS[3]]
    assert getattr(app.lanes.show(LOCKS[3]), "state", None) == "paused"
    assert app.cell(4).lanes.list() == []
    assert [paused.queue for paused in app.queues.list_paused()] == ["mail"]
    app.cell(key="tenant:7").limits.set("stripe", concurrency=2)
    app.limits.set("mail", concurrency=1, per_cell=True)
    assert [(each.pattern, each.running) for each in app.limits.list()] == [
        ("mail", 0), ("stripe", 0),
    ]  # fmt: skip
    assert app.limits.remove("stripe")
    assert app.limits.remove("mail")
    assert app.lanes.resume(LOCKS[3])
    assert app.job_manager.preview_jobs("cancel", everything=True).count == 1
    assert app.job_manager.cancel_jobs(everything=True).changed == 1


def test_jobs_for_several_cells_continue_the_trace_of_their_caller(app: App, task: Double) -> None:
    spans = Spans()
    app.tracing = Tracing(tracer_provider=spans.provider)
    new = [task.configure(lock=lock).make_new_job(1) for lock in LOCKS]
    with spans.provider.get_tracer("shop").start_as_current_span("order"):
        app.job_manager.batch_defer_jobs(new)
    order = spans.one("order").context
    sent = [each.parent for each in spans.list("send default")]
    assert len(sent) == COUNT
    assert {each and each.span_id for each in sent} == {order and order.span_id}


def test_merged_lists_keep_their_order_and_their_limit(app: App, task: Double) -> None:
    batches = [app.cell(cell).batches.open(f"import {cell}") for cell in (5, 0, 7, 2)]
    assert [each.id for each in app.batches.list()] == batches[::-1]
    assert [each.id for each in app.batches.list(limit=2)] == batches[:1:-1]
    for cell in (6, 1, 4, 3):
        task.configure(lock=LOCKS[cell]).defer(cell)
        app.lanes.pause(LOCKS[cell])
    assert [each.lock for each in app.lanes.list()] == [LOCKS[cell] for cell in (6, 1, 4, 3)]
    assert [each.lock for each in app.lanes.list(limit=2)] == [LOCKS[6], LOCKS[1]]
    for cell in (6, 1, 4):
        app.cell(cell).limits.set(f"limit:{9 - cell}", concurrency=1)
        app.cell(cell).groups.set(f"group:{9 - cell}", weight=2)
    assert [each.pattern for each in app.limits.list()] == ["limit:3", "limit:5", "limit:8"]
    assert [each.pattern for each in app.limits.list(limit=1)] == ["limit:3"]
    assert [each.name for each in app.groups.list(limit=2)] == ["group:3", "group:5"]
    for cell in (6, 1, 4):
        app.cell(cell).queues.pause(f"queue:{cell}")
        app.cell(cell).queues.pause_task(f"task:{cell}")
    assert [each.queue for each in app.queues.list_paused()] == ["queue:6", "queue:1", "queue:4"]
    assert [each.task for each in app.queues.list_paused_tasks()] == ["task:6", "task:1", "task:4"]
    locks = [counts["name"] for counts in app.job_manager.list_locks()]
    assert locks == sorted(LOCKS[cell] for cell in (6, 1, 4, 3))


def test_a_group_has_its_weight_in_each_cell(app: App, task: Double) -> None:
    app.groups.set("tenant:7", weight=3)
    app.cell(4).groups.set("tenant:8", weight=2)
    for cell, group in ((0, "tenant:7"), (4, "tenant:7"), (4, "tenant:8")):
        task.configure(lock=LOCKS[cell], group=group).defer(cell)

    def weigh(app: App) -> list[tuple[str, int, int | None]]:
        return [(each.name, each.weight, each.waiting) for each in app.groups.list()]

    assert sorted(weigh(app)) == [("tenant:7", 3, 2), ("tenant:8", 2, 1)]
    assert weigh(app.cell(0)) == [("tenant:7", 3, 1)]
    assert app.groups.remove("tenant:7")
    assert app.groups.remove("tenant:8")
    assert not app.groups.remove("tenant:8")


def test_what_names_a_lane_or_a_job_never_goes_elsewhere(app: App, task: Double) -> None:
    jobs = [task.configure(lock=lock).defer(n) for n, lock in enumerate(LOCKS)]
    view = app.cell(3)
    assert view.cell(5).connector is app.cell(5).connector
    key = app.cell(key="tenant:7").connector
    assert view.cell(key="tenant:7").connector is key
    assert view.lanes.pause(LOCKS[6])
    assert getattr(app.lanes.show(LOCKS[6]), "state", None) == "paused"
    assert view.job_manager.get_job_status(jobs[7]) == "todo"
    assert [job.id for job in view.job_manager.list_jobs()] == [jobs[3]], "it names no lane"
    assert app.lanes.pause(7), "as the lock that it is stored under"  # type: ignore[arg-type]
    assert [lane.lock for lane in app.cell(cell_of("7", COUNT)).lanes.list()][-1:] == ["7"]
    assert sum(lane.lock == "7" for lane in app.lanes.list()) == 1
    with pytest.raises(BadArgument, match="id: '17' is not the id of a job or a batch"):
        app.job_manager.explain("17")  # type: ignore[arg-type]


def test_each_cell_gets_only_its_own_jobs_of_a_bulk(
    app: App, task: Double, monkeypatch: pytest.MonkeyPatch
) -> None:
    jobs = [task.configure(lock=lock).defer(n) for n, lock in enumerate(LOCKS)]
    for cell in (0, 3, 4):
        monkeypatch.setattr(app.cell(cell).connector, "run", None)  # they are not asked
    done = app.job_manager.cancel_jobs(ids=[jobs[5], jobs[1], jobs[2], jobs[6]])
    assert (done.changed, done.refused.total()) == (4, 0)
    assert app.job_manager.cancel_jobs(ids=jobs[7:]).changed == 1


def test_the_schema_manager_migrates_the_cells(empty: list[str]) -> None:
    app = App(cells=[empty[0], empty[0]])
    with pytest.raises(WrongCell, match=r"cell 0 .*not a cell yet"):
        app.schema_manager.apply_schema()
    assert isinstance(app.connector, Cells)
    assert all(is_new for _, is_new in create_cells(app.connector))
    for cell in range(2):
        query(empty[0], f"DROP FUNCTION inturn_{cell:02}.defer CASCADE")
        query(empty[0], f"DELETE FROM inturn_{cell:02}.applied_code")
    app.schema_manager.apply_schema()
    app.cell(1).schema_manager.apply_schema()
    assert 'SET search_path = "inturn_01"' in app.cell(1).schema_manager.get_schema()
    with pytest.raises(ConfigurationError, match=r"the app has 2 cells. Name one: app.cell\(3\)"):
        app.schema_manager.get_schema()
    assert app.schema_manager.get_migrations_path().endswith("versions")
    with app.open():
        assert app.configure_task("x", lock="a").defer() % 1024 == cell_of("a", 2)


def test_free_jobs_go_round_and_queueing_locks_do_not(app: App, task: Double) -> None:
    free = {task.defer(n) % 1024 for n in range(COUNT)}
    assert free == set(range(COUNT))
    once = task.configure(queueing_lock="report")
    assert once.defer(1) % 1024 == cell_of("report", COUNT)
    with pytest.raises(AlreadyEnqueued):
        once.defer(1)


def test_a_free_job_with_a_limit_is_in_the_cell_of_the_limit(
    app: App, task: Double, homes: list[PsycopgConnector]
) -> None:
    place = cell_of("stripe", COUNT)
    assert {task.configure(limit="stripe").defer(n) % 1024 for n in range(4)} == {place}
    lane = next(lock for lock in LOCKS if cell_of(lock, COUNT) != place)
    assert task.configure(limit="stripe", lock=lane).defer(1) % 1024 != place
    other = (place + 1) % COUNT
    named = app.cell(other).configure_task("double", limit="stripe").defer(n=1)
    assert named % 1024 == other, "it was named"
    away = next(home for home, at in zip(homes, AT, strict=True) if at != AT[place])
    with (
        psycopg.connect(away.dsn) as connection,
        pytest.raises(BadArgument, match=f"but 'stripe' is for cell {place}"),
    ):
        task.configure(limit="stripe", connection=connection).defer(1)


def test_jobs_join_the_transaction_of_their_own_database(
    app: App, task: Double, homes: list[PsycopgConnector]
) -> None:
    near, far = [psycopg.connect(homes[cell].dsn) for cell in (0, 7)]
    with near, far:
        job = task.configure(lock=LOCKS[0], connection=near).defer(1)
        new = [task.configure(lock=LOCKS[cell]).make_new_job(cell) for cell in (2, 1, 2)]
        several = app.job_manager.batch_defer_jobs(new, near)
        assert [id % 1024 for id in several] == [2, 1, 2], "several cells, one transaction"
        free = [task.configure(connection=far).defer(n) for n in range(6)]
        assert {AT[id % 1024] for id in free} == {1}
        assert len({*free}) == 6
        far.rollback()
        near.commit()
    assert {each.id for each in app.job_manager.list_jobs()} == {job, *several}
    given = conninfo_to_dict(homes[0].dsn)
    url = f"postgresql+psycopg://postgres@/{given['dbname']}?host={given['host']}&port={given['port']}"
    engine = sqlalchemy.create_engine(url)
    with engine.begin() as connection:
        task.configure(lock=LOCKS[1], connection=connection).defer(2)
        with pytest.raises(BadArgument, match=f"but '{LOCKS[6]}' is for cell 6"):
            task.configure(lock=LOCKS[6], connection=connection).defer(2)
    engine.dispose()
    assert len(app.job_manager.list_jobs()) == 5


def test_each_cell_is_traced(app: App) -> None:
    sent: list[int] = []

    @contextmanager
    def send(jobs: Sequence[NewJob]) -> Iterator[SimpleNamespace]:
        sent.append(len(jobs))
        yield SimpleNamespace(jobs=jobs, note=lambda made: made)

    app.configure_task("t", lock=LOCKS[3]).defer()
    app.tracing = SimpleNamespace(send=send)
    new = [app.configure_task("t", lock=lock).make_new_job() for lock in (*LOCKS, LOCKS[3])]
    app.job_manager.batch_defer_jobs(new)
    assert sorted(sent) == [1] * 7 + [2]


def test_a_batch_is_in_one_cell(app: App, task: Double) -> None:
    ended = []

    @app.task
    def report() -> None:
        ended.append("all")

    with app.batch("import", callback=report.configure(lock=LOCKS[5])) as batch:
        jobs = [task.configure(batch=batch).defer(n) for n in range(3)]
    assert {id % 1024 for id in [batch, *jobs]} == {5}
    assert getattr(app.batches.show(batch), "total", 0) == 3
    app.cell(5).run_worker()
    app.cell(5).run_worker()
    assert ended == ["all"]
    assert [each.name for each in app.batches.list()] == ["import"]


def test_a_schedule_is_in_one_cell(app: App) -> None:
    def declare(name: str, lock: str | None = None) -> None:
        @app.periodic(cron="* * * * *", periodic_id=name, lock=lock)
        @app.task(name=name)
        def tick(timestamp: int) -> None: ...

    for n in range(20):
        declare(f"free {n}")
        declare(f"locked {n}", lock=LOCKS[n % COUNT])
    found = {
        schedule.periodic_id: cell
        for cell in range(COUNT)
        for schedule in app.cell(cell).schedules()
    }
    assert len(found) == len(list(app.schedules())) == 40
    assert all(found[f"locked {n}"] == n % COUNT for n in range(20))
    assert len({found[f"free {n}"] for n in range(20)}) > 1


def test_a_schedule_with_a_cell_key_keeps_its_cell_when_its_lock_changes(
    homes: list[PsycopgConnector],
) -> None:
    places = set()
    for lock in (*LOCKS, None):
        app = App(cells=homes)

        @app.periodic(cron="* * * * *", lock=lock, cell="nightly")
        @app.task(name="tick")
        def tick(timestamp: int) -> None: ...

        places |= {cell for cell in range(COUNT) if list(app.cell(cell).schedules())}
    assert places == {cell_of("nightly", COUNT)}


def test_an_error_of_a_cell_keeps_the_error_of_its_driver(homes: list[PsycopgConnector]) -> None:
    away = [PsycopgConnector(AWAY, schema=f"inturn_0{cell}", timeout=1) for cell in (6, 7)]
    app = App(cells=[*homes[:6], *away])
    unknown = [app.configure_task("unknown", lock=lock) for lock in LOCKS[6:]]
    with app.open():
        with pytest.raises(DatabaseUnavailable) as raised:
            unknown[0].defer()
        with pytest.raises(DatabaseUnavailable) as bulk:
            app.job_manager.batch_defer_jobs([each.make_new_job() for each in unknown])
    for error in (raised.value, bulk.value):
        assert isinstance(error.__cause__, psycopg.Error)


def test_one_cell_down_stops_only_its_lanes(homes: list[PsycopgConnector]) -> None:
    away = PsycopgConnector(AWAY, schema="inturn_06", timeout=1)
    app = App(cells=[*homes[:6], away, homes[7]], worker_defaults=WORKER)

    @app.task(name="double")
    def double(n: int) -> int:
        return 2 * n

    with app.open():
        jobs = {n: double.configure(lock=LOCKS[n]).defer(n) for n in range(COUNT) if n != 6}
        with pytest.raises(DatabaseUnavailable):
            double.configure(lock=LOCKS[6]).defer(6)
        for cell in jobs:
            app.cell(cell).run_worker()
        assert [job.result(60) for job in jobs.values()] == [2 * n for n in jobs]
        with pytest.raises(CellsUnanswered, match=r"1 of 8 cells did not answer \(6\): ") as raised:
            app.job_manager.list_queues()
        assert sorted(raised.value.answers) == [*jobs]
        new = [double.configure(lock=lock).make_new_job(n) for n, lock in enumerate(LOCKS * 2)]
        with pytest.raises(
            PartlyDeferred, match=r"14 of 16 jobs were deferred. Those of cell 6"
        ) as part:
            app.job_manager.batch_defer_jobs(new)
        assert part.value.left == [6, 14]
        assert list(part.value.errors) == [6]
        made = [job for job in part.value.deferred if job is not None]
        assert {id for cell in jobs for id in _waiting(app.cell(cell))} == set(made)


def _waiting(app: App) -> list[int]:
    return [job.id for job in app.job_manager.list_jobs() if job.status in ("todo", "blocked")]


def test_an_app_without_cells_loads_none_of_it() -> None:
    code = (
        "import sys, inturn; app = inturn.App('postgresql://a/b'); app.lanes\n"
        "assert app.cell(3).connector is app.connector\n"
        "print([name for name in sys.modules if name.startswith('inturn.cells')])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
