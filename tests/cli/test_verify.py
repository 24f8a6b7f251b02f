"""`queue verify` and `app.verify`: what they say about what was found, and how they end."""

import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta

import psycopg
import pytest

from inturn import App
from inturn.database import drive
from inturn.operations.reading import verify
from tests.cli.conftest import Run
from tests.cli.engine import Engine
from tests.verify.histories import Ended, History

SINCE = datetime.now(UTC).replace(microsecond=0) - timedelta(hours=5)
MILLISECOND = timedelta(milliseconds=1)


@pytest.fixture
def history() -> History:
    return History(5, SINCE, count=300)


def write(history: History, dsn: str) -> None:
    with psycopg.connect(dsn, autocommit=True, options="-c search_path=inturn") as connection:
        history.write(connection)


def break_order(history: History) -> int:
    [(first, second)] = history.choose(history.neighbours(), 1)
    first.finished_at = second.finished_at + MILLISECOND
    assert isinstance(second, Ended)
    return second.id


def test_nothing_is_found(history: History, queue: Run, engine: Engine) -> None:
    write(history, engine.dsn)
    ended = queue("verify", "--since", "24h")
    assert ended.returncode == 0
    lines = ended.stdout.splitlines()
    assert lines[-1] == "ok      300 jobs read: no promise was broken"
    assert {line.split()[0] for line in lines[:-1]} == {"unknown"}
    assert "track_commit_timestamp is off" in ended.stdout


def test_a_violation_is_named(history: History, queue: Run, engine: Engine) -> None:
    late = break_order(history)
    write(history, engine.dsn)
    ended = queue("verify")
    assert ended.returncode == 10
    assert f"broken  overlap job {late} (lane " in ended.stdout
    assert ended.stdout.splitlines()[-1].endswith("violation")
    found = json.loads(queue("verify", "--json").stdout)
    assert (found["jobs"], found["violations"]) == (300, 1)
    assert found["broken"][0]["job_id"] == str(late)
    lock = found["broken"][0]["lock"]
    assert queue("verify", "--lock", lock).returncode == 10
    assert queue("verify", "--lock", "other").returncode == 0
    assert queue("verify", "--since", "1h").returncode == 0, "it ended before"


def test_what_is_allowed_is_counted_by_its_reason(
    history: History, queue: Run, engine: Engine
) -> None:
    pairs = [pair for pair in history.neighbours() if pair[0].finished_at > pair[1].created_at]
    [(first, second)] = history.choose(pairs, 1)
    for name in ("started_at", "finished_at", "fence"):
        mine = getattr(first, name)
        setattr(first, name, getattr(second, name))
        setattr(second, name, mine)
    write(history, engine.dsn)
    ended = queue("verify")
    example = f"1 job, for example job {second.id} and {first.id}"
    assert f"allowed order   late commit: {example}" in ended.stdout
    assert ended.returncode == 0
    assert queue("verify", "--longest-transaction", "0").returncode == 10


@pytest.mark.anyio
async def test_an_app_verifies(history: History, app_dsn: str, dsn: str) -> None:
    late = break_order(history)
    write(history, dsn)
    async with App(app_dsn).open_async() as app:
        found = await app.verify_async(timedelta(hours=24))
    assert not found.is_kept
    assert [each.job_id for each in found.broken] == [late]
    assert found.since is not None
    assert found.until is not None
    assert found.until - found.since == timedelta(hours=24)


def test_an_app_verifies_a_lane(history: History, app: App, dsn: str) -> None:
    late = break_order(history)
    write(history, dsn)
    found = app.verify(SINCE)
    assert [each.job_id for each in found.broken] == [late]
    assert app.verify(SINCE, lock="other").is_kept


def test_slices_find_what_one_reading_finds(
    history: History, dsn: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A job is kept for as long as it can be in the way of another."""
    for first, second in history.choose(history.neighbours(), 20):
        first.finished_at = second.finished_at + MILLISECOND
    write(history, dsn)
    found, places = {}, list[verify.Place]()
    with psycopg.connect(dsn, autocommit=True) as connection:
        for size in (10_000, 7, 1):
            monkeypatch.setattr(verify, "SIZE", size)
            places.clear()
            judged = drive.run(verify.verify(None, None, watch=places.append), connection, "inturn")
            pairs = {(each.promise, each.job_id) for each in judged.broken}
            found[size] = pairs, judged.jobs, judged.violations
    assert found[10_000] == found[7] == found[1]
    assert len(places) > 10
    assert places[-1].reached == places[-1].last == history.count


def test_an_interrupted_reading_is_continued(
    history: History, dsn: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It begins before the first job that was kept."""
    monkeypatch.setattr(verify, "SIZE", 50)
    planted = history.choose(history.neighbours(), 20)
    for first, second in planted:
        first.finished_at = second.finished_at + MILLISECOND
    write(history, dsn)

    def interrupt(at: verify.Place) -> None:
        if at.reached >= 150:
            places.append(at)
            raise KeyboardInterrupt

    places = list[verify.Place]()
    with psycopg.connect(dsn, autocommit=True) as connection:
        with pytest.raises(KeyboardInterrupt):
            drive.run(verify.verify(None, None, watch=interrupt), connection, "inturn")
        [place] = places
        assert 0 < place.resume_after <= place.reached < 300
        judge = verify.verify(None, None, after=place.resume_after)
        rest = drive.run(judge, connection, "inturn")
    found = {each.job_id for half in (place.found, rest) for each in half.broken}
    assert found == {second.id for _, second in planted}


def test_an_interrupted_command_names_the_one_that_continues(
    history: History, queue: Run, engine: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    @contextmanager
    def stop(*, counts: bool) -> Iterator[Callable[[int, int], None]]:
        def advance(done: int, total: int) -> None:
            if done >= 100:
                raise KeyboardInterrupt

        yield advance

    monkeypatch.setattr(verify, "SIZE", 50)
    monkeypatch.setattr("inturn.cli.commands.verify.show_progress", stop)
    write(history, engine.dsn)
    ended = queue("verify", "--longest-call", "9s", "--since", "36500d")
    assert ended.returncode == 130
    again = "queue verify --since 36500d --longest-transaction 1m --longest-call 9s --after "
    assert f"Interrupted. To continue: {again}" in ended.stderr


def test_the_command_continues(history: History, queue: Run, engine: Engine) -> None:
    write(history, engine.dsn)
    assert "100 jobs read" in queue("verify", "--after", "200").stdout
