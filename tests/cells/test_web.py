"""The dashboard over cells: all cells on its first page, and each below it."""

from collections.abc import Iterator

import psycopg
import pytest
from starlette.testclient import TestClient

from inturn import App
from inturn.database.connectors import PsycopgConnector
from inturn.formatting import name_command
from inturn.web import Access, SecretLink, create_app
from tests.cells.load import working
from tests.cells.test_app import AWAY, LOCKS
from tests.waiting import wait_until


def browse(app: App, access: Access = Access.FULL) -> TestClient:
    site = create_app(app, authorize=lambda request: access.named("ana"))
    return TestClient(site, headers={"sec-fetch-site": "same-origin"}, follow_redirects=False)


@pytest.fixture
def client(app: App) -> Iterator[TestClient]:
    with browse(app) as client:
        yield client


def test_the_first_page_counts_in_all_cells(app: App, client: TestClient) -> None:
    job = app.configure_task("shop.pay", lock=LOCKS[6]).defer()
    page = client.get("/").text
    assert page.count('<th scope="row" data-label="Cell">') == 8
    assert page.count('<td data-label="Runnable" class="n">1</td>') == 1
    assert page.count('<td data-label="Workers" class="n">0</td>') == 8
    assert "does not answer" not in page
    below = client.get("/cell/6/jobs")
    assert (below.status_code, f">{job}<" in below.text) == (200, True)
    assert "shop.pay" not in client.get("/cell/5/jobs").text


def test_it_counts_the_workers_of_a_cell_without_jobs(app: App, client: TestClient) -> None:
    serving = '<td data-label="Workers" class="n">1</td>'
    with working(app, []):
        wait_until(lambda: client.get("/").text.count(serving) == 1)


def test_it_finds_a_lane_and_a_job(app: App, client: TestClient) -> None:
    job = app.configure_task("shop.pay", lock=LOCKS[6]).defer()
    found = client.get("/find", params={"find": str(job)})
    assert (found.status_code, found.headers["location"]) == (303, f"/cell/6/jobs/{job}")
    assert client.get(found.headers["location"]).status_code == 200
    lane = client.get("/find", params={"find": LOCKS[6]})
    assert lane.headers["location"].startswith("/cell/6/lane?lock=lane%3A")
    assert LOCKS[6] in client.get(lane.headers["location"]).text
    assert "No cell has job 1023." in client.get("/find", params={"find": "1023"}).text


def test_the_advice_of_a_cell_names_it(app: App, client: TestClient) -> None:
    job = app.configure_task("shop.pay", lock=LOCKS[6]).defer()
    assert ">queue worker --cells 6 --queues default<" in client.get(f"/cell/6/jobs/{job}").text
    assert ">queue limits set --cell 6 stripe --conc" in client.get("/cell/6/limits").text
    assert ">queue worker --cells 6<" in client.get("/cell/6/workers").text
    checks = client.get("/cell/6/system/checks").text
    assert ">queue doctor --cell 6<" in checks
    assert "queue worker --cells 6" in checks
    assert name_command("queue cells create", "queue", 6) == "queue cells create"


def test_it_says_which_cell_does_not_answer(homes: list[PsycopgConnector]) -> None:
    away = PsycopgConnector(AWAY, schema="inturn_02", timeout=1)
    with browse(App(cells=[*homes[:2], away, *homes[3:]])) as client:
        page = client.get("/").text
    assert page.count("does not answer: The database cannot be reached<") == 1
    assert "cell 2 (127.0.0.1:1/cells, schema inturn_02) <strong>does not" in page


def test_it_does_not_wait_for_a_cell_with_a_locked_table(
    homes: list[PsycopgConnector], client: TestClient
) -> None:
    with psycopg.connect(homes[2].dsn) as other:
        other.execute("LOCK TABLE inturn_02.workers")
        page = client.get("/").text
    assert page.count("does not answer: A table of the queue is locked<") == 1


def test_its_pages_are_not_for_everybody(app: App) -> None:
    with browse(app, Access.FORBIDDEN) as client:
        pages = ("/", "/find?find=a", "/cell/3/", "/cell/3/jobs")
        assert {client.get(page).status_code for page in pages} == {403}
    link = SecretLink()
    with TestClient(create_app(app, authorize=link), base_url="https://shop") as client:
        assert client.get("/cell/3/").status_code == 403
        assert client.get(f"/{link.query}").status_code == 200
        assert client.get("/cell/3/").status_code == 200, "one link for all of them"
