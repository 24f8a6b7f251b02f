"""Lanes: the list, its filters, and the address as the only state."""

import re

import pytest
from starlette.testclient import TestClient

from inturn import App
from inturn.operations.changes import lanes
from inturn.web.lanes.filter import STATES
from inturn.web.pages import lanes as page_of_lanes
from tests.conftest import Query

EACH_FILTER = {
    "state": "paused", "prefix": "order:", "queue": "mail", "task": "shop.pay", "waiting": "1",
    "oldest": "1s",
}  # fmt: skip


def find_locks(page: str) -> list[str]:
    return re.findall(r'class="lock" href="[^"]*">([^<]*)<', page)


def find_words(page: str) -> dict[str, str]:
    """Return the state of each lane, by its lock."""
    row = r"<span>([a-z]+)</span></span></td>\s*<th[^>]*><a[^>]*>([^<]*)<"
    return {lock: state for state, lock in re.findall(row, page)}


def test_lanes_are_listed_with_the_reason_why_they_do_not_move(
    client: TestClient, app: App
) -> None:
    app.configure_task("shop.pay", lock="order:1").defer()
    app.lanes.pause("order:1", reason="bank is down", by="eve")
    page = client.get("/lanes").text
    assert find_locks(page) == ["order:1"]
    assert "by eve: bank is down" in page


def test_a_prefix_finds_lanes_by_name_even_if_nothing_is_wrong(
    client: TestClient, app: App
) -> None:
    for lock in ("order:1", "order:2", "customer:1"):
        app.configure_task("shop.pay", lock=lock).defer()
    page = client.get("/lanes", params={"prefix": "order:", "sort": "name"}).text
    assert find_locks(page) == ["order:1", "order:2"]


def test_a_state_filters(client: TestClient, app: App) -> None:
    for lock in ("a", "b"):
        app.configure_task("shop.pay", lock=lock).defer()
    app.lanes.pause("a")
    assert find_locks(client.get("/lanes", params={"state": "paused"}).text) == ["a"]
    assert "Clear filter" in client.get("/lanes", params={"state": "held"}).text


@pytest.fixture
def shop(app: App, query: Query) -> App:
    """Lanes in several states, whose jobs have several tasks and queues."""

    @app.task(name="shop.ship", on_failure="halt")
    def ship() -> None:
        raise ValueError("no address")

    ship.configure(lock="order:halted").defer()
    app.configure_task("shop.pay", lock="order:halted").defer()
    app.run_worker()
    for task, lock, queue, jobs in (
        ("shop.pay", "order:paid", "mail", 3),
        ("shop.pay", "order:free", "default", 1),
        ("mail.send", "customer:1", "mail", 1),
    ):
        for _ in range(jobs):
            app.configure_task(task, lock=lock, queue=queue).defer()
    for lock in ("order:paid", "customer:1"):
        app.lanes.pause(lock)
    worker = "SELECT register_worker('w', 'host', 1, '{default}', 4)"
    [(worker_id,)] = query(worker)
    app.configure_task("report.export", lock="report:1").defer()
    assert query("SELECT id FROM claim(%s, '{default}', 9)", worker_id)
    query(
        "UPDATE lanes SET stopped_at = clock() - interval '10 minutes' "
        "WHERE lock = 'order:paid' RETURNING 1"
    )
    return app


@pytest.mark.parametrize(
    ("asked", "locks"),
    [
        ({"queue": "mail"}, ["order:paid", "customer:1"]),
        ({"queue": "mai"}, []),
        ({"task": "mail.send"}, ["customer:1"]),
        ({"task": "shop.ship"}, ["order:halted"]),
        ({"task": "shop.*"}, ["order:halted", "order:paid", "order:free"]),
        ({"task": "shop.*", "queue": "mail"}, ["order:paid"]),
        ({"task": "report.export"}, ["report:1"]),
        ({"waiting": "1"}, ["order:halted", "order:paid", "customer:1"]),
        ({"waiting": "3"}, ["order:paid"]),
        ({"waiting": " 4 "}, []),
        ({"oldest": "5m"}, ["order:paid"]),
        ({"oldest": "999999d"}, []),
        ({"oldest": "5m", "queue": "default"}, []),
        ({"state": "paused", "task": "mail.*"}, ["customer:1"]),
        ({"state": "held", "queue": "default"}, ["order:free", "report:1"]),
        ({"prefix": "order:", "task": "shop.pay"}, ["order:free", "order:paid"]),
        ({"prefix": "order:", "task": "shop.ship", "state": "halted"}, ["order:halted"]),
        ({"prefix": "order:", "waiting": "3"}, ["order:paid"]),
        ({"prefix": "order:", "oldest": "5m"}, ["order:paid"]),
    ],
)
def test_filters_choose_lanes(
    client: TestClient, shop: App, asked: dict[str, str], locks: list[str]
) -> None:
    page = client.get("/lanes", params={**asked, "sort": "worst"}).text
    assert sorted(find_locks(page)) == sorted(locks)
    assert ("Clear filter" in page) == (not locks)
    for name, value in asked.items():
        assert f'name="{name}" value="{value}"' in page or name == "prefix"


@pytest.mark.parametrize(
    ("asked", "message"),
    [
        ({"waiting": "many"}, "“many” is not a number up to 1,000. Write 100"),
        ({"waiting": "-1"}, "“-1” is not a number"),
        ({"waiting": "5000"}, "“5000” is not a number up to 1,000"),
        ({"oldest": "5 minutes"}, "“5 minutes” is not a length of time. Write 5m"),
        ({"oldest": "9" * 200}, "9” is not a length of time"),
        ({"state": "waiting"}, "“waiting” is not a state. Use one of: halted"),
    ],
)
def test_a_value_that_cannot_be_understood_shows_no_lane_and_says_so(
    client: TestClient, shop: App, asked: dict[str, str], message: str
) -> None:
    answer = client.get("/lanes", params=asked)
    assert answer.status_code == 200
    assert message in answer.text
    assert find_locks(answer.text) == []
    assert "so no lanes are shown" in answer.text


def test_an_order_that_nobody_knows_is_the_first(client: TestClient, shop: App) -> None:
    answer = client.get("/lanes", params={"sort": "drop table", "prefix": "\0"})
    assert answer.status_code == 200
    assert find_locks(answer.text)[0] == "order:halted"


def test_each_link_keeps_the_rest_of_the_filter(client: TestClient, shop: App) -> None:
    page = client.get("/lanes", params=EACH_FILTER | {"sort": "name"}).text
    (chip,) = re.findall(r'href="(/lanes\?[^"]*state=halted[^"]*)"', page)
    for name, value in EACH_FILTER.items():
        assert name == "state" or f"{name}={value.replace(':', '%3A')}" in chip
    assert "sort=name" in chip


def test_a_bulk_is_not_offered_where_it_would_change_more_lanes_than_are_shown(
    client: TestClient, shop: App
) -> None:
    assert "/bulk/lanes" in client.get("/lanes", params={"state": "paused"}).text
    for name in ("queue", "task", "waiting", "oldest"):
        asked = {"state": "paused", name: EACH_FILTER[name]}
        assert "/bulk/lanes" not in client.get("/lanes", params=asked).text


def test_a_lane_has_the_same_word_however_it_is_found(
    client: TestClient, app: App, query: Query
) -> None:
    register = "SELECT register_worker(%s, 'host', 1, %s, 4, '{shop.pay}')"
    [(live,)], [(lost,)] = query(register, "w1", ["default"]), query(register, "w2", ["lost"])
    app.limits.set("stripe", concurrency=1)
    app.configure_task("shop.pay", lock="a:stalled", queue="lost").defer()
    for lock in ("a:held", "a:limited"):
        app.configure_task("shop.pay", lock=lock, limit="stripe").defer()
    query("SELECT id FROM claim(%s, '{default}', 2)", live)
    query("SELECT id FROM claim(%s, '{lost}', 1)", lost)
    query(
        "UPDATE workers SET heartbeat_at = heartbeat_at - interval '1 hour' WHERE id = %s "
        "RETURNING 1",
        lost,
    )
    for lock, task, queue in (
        ("a:free", "shop.pay", "default"),
        ("a:unknown", "shop.typo", "default"),
        ("a:unserved", "shop.pay", "mail"),
    ):
        app.configure_task(task, lock=lock, queue=queue).defer()
    app.lanes.pause("a:paused")
    words = [find_words(client.get(f"/lanes?{asked}").text) for asked in ("", "prefix=a:")]
    assert words[1] == {f"a:{word}": word for word in STATES if f"a:{word}" in words[1]}
    assert words[1].keys() >= words[0].keys()
    assert words[0] == {lock: words[1][lock] for lock in words[0]}
    assert set(words[1].values()) - set(words[0].values()) == {"free"}
    assert app.lanes.show("a:free") is None
    assert app.connector.run(lanes.report_lane("a:free")).state == "free"


def test_the_page_says_if_it_searched_only_a_part(
    client: TestClient, shop: App, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(page_of_lanes, "SEARCHED", 2)
    assert "Only the 2 worst lanes are searched" in client.get("/lanes?task=report.*").text
    assert "Only the first 2 lanes with this prefix" in client.get("/lanes?prefix=order:").text
    assert "Only the 2 worst lanes are shown" in client.get("/lanes?sort=waiting").text
    assert "searched" not in client.get("/lanes?state=held&waiting=0&queue=mail").text
    monkeypatch.setattr(page_of_lanes, "LISTED", 1)
    assert "1 of 2 matching lanes are shown" in client.get("/lanes?state=paused&queue=mail").text
    assert "Only the 1 worst lanes are shown. For others, enter" in client.get("/lanes").text


def test_a_state_is_found_behind_any_number_of_worse_ones(
    client: TestClient, shop: App, monkeypatch: pytest.MonkeyPatch
) -> None:
    for number in range(5):  # nobody knows their task, so they are tried again
        shop.configure_task("shop.typo", lock=f"retry:{number}", queue="typo").defer()
    shop.run_worker(queues=["typo"], wait=False)
    monkeypatch.setattr(page_of_lanes, "LISTED", 2)
    worst = client.get("/lanes").text
    assert set(find_words(worst).values()) == {"halted", "paused"}
    assert set(find_words(client.get("/lanes?state=retrying").text).values()) == {"retrying"}
    held = client.get("/lanes?state=held").text
    assert find_words(held) == {"order:free": "held", "report:1": "held"}


def test_a_page_that_cannot_show_free_lanes_says_how_to_find_them(
    client: TestClient, app: App
) -> None:
    app.configure_task("shop.pay", lock="order:1").defer()
    for asked in ("state=free", "task=shop.pay"):
        page = client.get(f"/lanes?{asked}").text
        assert "only found by the start of their locks" in page
    assert "only found by" not in client.get("/lanes?state=free&prefix=order").text


AGE = (
    "UPDATE finished_jobs SET finished_at = clock() - interval '1 min' * minutes FROM ("
    "  SELECT id, row_number() OVER (ORDER BY id DESC) * %s AS minutes FROM finished_jobs"
    "  WHERE %s = ANY (coalesce(locks, ARRAY[lock]))) AS old "
    "WHERE finished_jobs.id = old.id RETURNING 1"
)


@pytest.fixture
def moving(app: App, query: Query) -> App:
    """Lanes in which one job ended in each of the last minutes, and two more wait."""

    @app.task(name="shop.pay")
    def pay() -> None:
        pass

    for _ in range(5):
        pay.configure(lock="fast").defer()
        pay.configure(lock="slow").defer()
        pay.configure(lock=["both", "fast too"]).defer()
    pay.configure(lock="few").batch_defer(*[{}] * 4)
    pay.configure(lock="new").batch_defer(*[{}] * 6)
    for job_id in pay.configure(lock="cancelled").batch_defer(*[{}] * 9):
        app.job_manager.cancel_job_by_id(job_id)
    app.run_worker()
    for lock in ("fast", "both", "few"):
        query(AGE, 1, lock)
    query(AGE, 4, "slow")  # so that two of its jobs count
    for lock in ("fast", "slow", "both", "fast too", "few", "new", "cancelled"):
        pay.configure(lock=lock).batch_defer({}, {})
    query("SELECT register_worker('w', 'host', 1, NULL, 4)")
    return app


def find_paces(page: str) -> dict[str, str]:
    """Return what the column of the pace says, by lock."""
    row = r'class="lock"[^>]*>([^<]*)<.*?data-label="Per minute"[^>]*>(.*?)</td>'
    return {
        lock: re.sub("<[^>]+>", " ", said).strip() for lock, said in re.findall(row, page, re.S)
    }


def test_a_lane_says_how_fast_it_went_and_how_long_the_rest_takes(
    client: TestClient, moving: App
) -> None:
    said: dict[str, str] = {}
    for prefix in ("fast", "slow", "both", "few", "new", "cancelled"):
        said |= find_paces(client.get("/lanes", params={"prefix": prefix}).text)
    for lock in ("fast", "both", "fast too"):
        assert re.fullmatch(r"(1\.0|0\.9)\s+about 2m\d\ds left", said.pop(lock)), lock
    assert re.fullmatch(r"6\.0\s+about 20s left", said.pop("new"))
    assert said == {"slow": "", "few": "", "cancelled": ""}


def test_a_lane_that_does_not_move_has_no_pace(client: TestClient, moving: App) -> None:
    moving.lanes.pause("fast")
    assert find_paces(client.get("/lanes").text)["fast"] == ""
