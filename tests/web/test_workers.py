"""Workers: their states, their jobs, and those that are lost."""

from starlette.testclient import TestClient

from inturn import App
from tests.conftest import Query
from tests.web.operated import REGISTER


def test_an_empty_page_says_how_to_start_a_worker(client: TestClient) -> None:
    assert (
        "No worker is running. Start one: <code>queue worker</code>" in client.get("/workers").text
    )


def test_a_worker_shows_its_process_and_links_to_its_jobs(
    client: TestClient, app: App, query: Query
) -> None:
    jobs = [app.configure_task("mail.send").defer() for _ in range(8)]
    [(worker,)] = query(REGISTER, "web-1", "host-a", 4711, ["default", "mail"], 2, [], [])
    query("SELECT id FROM claim(%s, NULL, 8)", worker)
    page = client.get("/workers").text
    for text in ("4711 on host-a", "2/2", "+ 6 claimed", "default, mail", "and 3 more"):
        assert text in page
    assert [f'href="/jobs/{job}"' in page for job in jobs] == [True] * 5 + [False] * 3


def test_states_are_words_and_lost_workers_are_folded_away(
    client: TestClient, query: Query
) -> None:
    for pid, name, silent, stuck in (
        (1, "fine", "0 s", "0 s"),
        (2, "stuck", "0 s", "20 s"),
        (3, "silent", "1 min", "1 min"),
        (4, "dead", "11 min", "11 min"),
    ):
        query(REGISTER, name, "host", pid, None, 4, [], [])
        query(
            "UPDATE workers SET heartbeat_at = clock() - %s::interval, "
            "loop_turned_at = clock() - %s::interval WHERE pid = %s RETURNING 1",
            *(silent, stuck, pid),
        )
    query(REGISTER, "ending", "host", 5, [], 4, [], [])
    page = client.get("/workers").text
    present, _, lost = page.partition('id="lost"')
    for word in ("live", "stopping", "blocked", "late"):
        assert f"<span>{word}</span>" in present
    assert "dead" not in present
    assert "1 lost worker" in lost
    assert "<span>lost</span>" in lost
    assert "<details" in present[-40:], "it is folded"
    assert "<dd>1<small> live, 1 stopping, 2 late</small>" in client.get("/").text


def test_a_prefix_filters_and_a_page_is_bounded(client: TestClient, query: Query) -> None:
    query(
        "SELECT count(register_worker(concat('w', n), 'host', n, NULL, 1)) "
        "FROM generate_series(1, 53) AS n"
    )
    page = client.get("/workers").text
    assert page.count('data-label="Process"') == 40
    assert "13 more workers" in page
    assert client.get("/workers", params={"prefix": "w53"}).text.count('"Process"') == 1
    assert "Clear filter" in client.get("/workers", params={"prefix": "x"}).text
