"""Jobs: the list, its filter, its pages, and what it hides."""

import html
import re
import shlex
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest
from starlette.requests import Request
from starlette.testclient import TestClient

from inturn import App, shared
from inturn.web import Access, create_app
from inturn.web.page import Links
from inturn.web.rendering import link_ids
from tests.cli.calling import invoke
from tests.conftest import Query
from tests.web.conftest import SAME_ORIGIN, Browse
from tests.web.operated import REGISTER

HOSTILE = "<script>alert(1)</script>\x1b[31m\u202e'\"&amp;"
MOST_QUERIES = 6


def find_ids(page: str) -> list[int]:
    return [int(id) for id in re.findall(r'<tr id="job-(\d+)">', page)]


def find(client: TestClient, text: str, **query: str) -> list[int]:
    answer = client.get("/jobs", params={"q": text, **query})
    assert answer.status_code == 200
    assert 'class="problem"' not in answer.text, answer.text
    return find_ids(answer.text)


def test_without_jobs_it_says_what_to_do(client: TestClient) -> None:
    page = client.get("/jobs").text
    assert "No jobs yet" in page
    assert "queue defer" in page


def test_jobs_are_listed_with_state_lane_and_arguments(client: TestClient, app: App) -> None:
    job_id = app.configure_task("shop.pay", queue="mail", lock="order:1").defer(amount=17)
    page = client.get("/jobs").text
    assert find_ids(page) == [job_id]
    assert "amount=17" in page
    assert 'href="/lane?lock=order%3A1"' in page
    assert f'href="/jobs/{job_id}"' in page


def test_each_word_of_the_filter_filters(client: TestClient, app: App) -> None:
    @app.task(name="shop.pay")
    def pay() -> None:
        raise ValueError("no money")

    failed = pay.configure(lock="order:1").defer()
    app.run_worker()
    mail = app.configure_task("mail.send", queue="mail", lock="customer:1").defer()
    late = app.configure_task("mail.send", lock="order:2", schedule_in={"hours": 1}).defer()
    table = {
        "": [late, mail, failed],
        "task:shop.pay": [failed],
        "task:mail.*": [late, mail],
        "queue:mail": [mail],
        "lock:order:1": [failed],
        "lock:order:*": [late, failed],
        "state:failed": [failed],
        "state:failed,scheduled": [late, failed],
        'error:"no money"': [failed],
        f"id:{mail}": [mail],
        f"like:{failed}": [failed],
        f"like:{mail}": [],
        "waited>5m": [],
        "ended>0s": [failed],
        "waited>0s task:mail.send": [late, mail],
        "task:mail": [],
    }
    assert {text: find(client, text) for text in table} == table


def test_a_bad_filter_shows_no_job_and_says_why(client: TestClient, app: App) -> None:
    app.configure_task("shop.pay").defer()
    page = client.get("/jobs", params={"q": "task:shop.pay colour:red"}).text
    assert "colour:red” is not a filter" in page
    assert find_ids(page) == []
    assert 'aria-invalid="true"' in page


def test_a_chip_takes_its_word_out_of_the_address(client: TestClient) -> None:
    page = client.get("/jobs", params={"q": "task:a queue:b"}).text
    assert 'href="/jobs?q=queue%3Ab"><code>task:a</code>' in page
    assert 'href="/jobs?q=task%3Aa"><code>queue:b</code>' in page


def test_tabs_count_the_states_under_the_rest_of_the_filter(client: TestClient, app: App) -> None:
    for lock in ("a", "a", "b"):
        app.configure_task("shop.pay", lock=lock).defer()
    app.configure_task("other").defer()
    page = client.get("/jobs", params={"q": "task:shop.pay state:failed"}).text
    counts = dict(re.findall(r'<span>(\w+)</span></span> <span class="n">([\d,+]+)</span>', page))
    assert counts == {"todo": "2", "blocked": "1"}
    assert 'href="/jobs?q=task%3Ashop.pay+state%3Atodo"' in page


def test_a_tab_counts_no_further_than_a_thousand(client: TestClient, app: App) -> None:
    app.configure_task("shop.pay").batch_defer(*({"n": n} for n in range(1_001)))
    assert "1,000+" in client.get("/jobs", params={"q": "queue:default"}).text


def test_older_jobs_follow_page_by_page_and_a_new_job_moves_none(
    client: TestClient, app: App
) -> None:
    ids = app.configure_task("shop.pay", queue="mail").batch_defer(*({"n": n} for n in range(120)))
    seen: list[int] = []
    address = "/jobs?q=queue%3Amail"
    while address:
        page = client.get(address).text
        app.configure_task("shop.pay", queue="mail").defer()
        seen += find_ids(page)
        older = re.search(r'href="([^"]+)" rel="next"', page)
        address = older[1].replace("&amp;", "&") if older else ""
        assert "offset" not in parse_qs(urlsplit(address).query)
    assert seen == sorted(ids, reverse=True)


@pytest.mark.parametrize("before", ["x", "-1", "9" * 30, "²", "0"])
def test_a_strange_place_in_the_list_is_no_error(client: TestClient, before: str) -> None:
    assert client.get("/jobs", params={"before": before}).status_code == 200


def test_whatever_a_job_carries_is_only_text(client: TestClient, app: App) -> None:
    @app.task(name=HOSTILE)
    def fail(**_: object) -> None:
        raise ValueError(HOSTILE)

    fail.configure(lock=HOSTILE).defer(**{"<b>": HOSTILE})
    app.run_worker()
    page = client.get("/jobs", params={"q": f'error:"{"<script>"}" state:failed'}).text
    assert len(find_ids(page)) == 1
    for raw in ("<script>alert", "<b>", "\x1b", "\u202e"):
        assert raw not in page


def test_hostile_filters_are_only_text(client: TestClient) -> None:
    for text in (HOSTILE, f"lock:{HOSTILE}", "\0", "'; DROP TABLE jobs", 'error:"\udfff"'):
        answer = client.get("/jobs", params={"q": text.encode("utf-8", "replace").decode()})
        assert answer.status_code == 200
        assert "<script>alert" not in answer.text
        assert "\u202e" not in answer.text


def test_secrets_among_the_arguments_are_hidden(client: TestClient, app: App) -> None:
    app.configure_task("login").defer(user="ana", password="hunter2", nested={"api_key": "k3y"})
    page = client.get("/jobs").text
    assert "ana" in page
    assert "hunter2" not in page
    assert "k3y" not in page


@pytest.mark.parametrize("hook", [lambda task, _: {}[task], lambda *_: None, lambda *_: ["tulips"]])
@pytest.mark.parametrize("path", ["/jobs", "/jobs/{}"])
def test_a_hook_that_fails_shows_nothing(app: App, hook: Any, path: str) -> None:
    job_id = app.configure_task("login").defer(card="tulips")
    site = create_app(app, authorize=lambda request: Access.FULL, redact=hook)
    with TestClient(site, headers=SAME_ORIGIN) as client:
        page = client.get(path.format(job_id)).text
    assert "tulips" not in page
    assert "(hidden)" in page


def test_arguments_need_a_right(browse: Browse, app: App) -> None:
    app.configure_task("login").defer(user="ana")
    assert "ana" in browse(Access.READ_ONLY).get("/jobs").text
    assert "ana" not in browse(Access.only("retry")).get("/jobs").text


def test_large_arguments_are_not_sent(client: TestClient, app: App) -> None:
    app.configure_task("load").defer(text="x" * 100_000)
    page = client.get("/jobs").text
    assert len(find_ids(page)) == 1
    assert "xxxx" not in page


def test_only_those_who_may_change_jobs_can_choose_them(browse: Browse, app: App) -> None:
    app.configure_task("shop.pay").defer()
    assert 'name="id"' not in browse(Access.READ_ONLY).get("/jobs").text
    page = browse(Access.only("retry")).get("/jobs").text
    assert 'name="id"' in page
    assert 'value="retry"' in page
    assert 'value="delete"' not in page


@pytest.mark.parametrize("text", ["", "task:a*", "like:1", "state:failed error:x", "waited>5m"])
def test_a_page_asks_little(client: TestClient, app: App, text: str) -> None:
    app.configure_task("shop.pay").batch_defer(*({"n": n} for n in range(60)))
    answer = client.get("/jobs", params={"q": text})
    queries = int(re.findall(r"\d+", answer.headers["server-timing"])[0])
    assert 1 < queries <= MOST_QUERIES


def test_the_command_of_a_job_defers_the_same_job_again(
    client: TestClient, app: App, dsn: str
) -> None:
    app.limits.set("bank", concurrency=1)
    task = app.configure_task(
        "shop.pay",
        lock=["order 1", shared("customer:7")],
        queue="mail",
        priority=3,
        limit="bank",
        group="tenant's",
        timeout=90.5,
    )
    first = task.defer(amount=17)
    page = client.get(f"/jobs/{first}").text
    assert "<dt>Timeout</dt><dd>90.5s</dd>" in page
    found = re.search(r'<pre id="command"[^>]*>(.*?)</pre>', page)
    assert found is not None
    command, *words = shlex.split(html.unescape(found[1]))
    done = invoke(*words, env={"INTURN_DSN": dsn})
    assert (command, done.returncode) == ("queue", 0), done.output
    [one] = app.job_manager.list_jobs(id=first)
    [other] = app.job_manager.list_jobs(id=int(done.stdout))
    for name in ("task_name", "task_kwargs", "queue", "priority", "limit", "group", "timeout"):
        assert getattr(one, name) == getattr(other, name), name
    assert (one.locks, one.shared) == (other.locks, other.shared)


def test_a_pending_job_waits_for_its_parents_and_links_to_them(
    client: TestClient, app: App, query: Query
) -> None:
    [(worker,)] = query(REGISTER, "web-1", "host", 1, None, 4, ["shop.pay"], [])
    parent = app.configure_task("shop.pay").defer()
    child = app.configure_task("shop.pay", after=[parent]).defer()
    for _ in range(2):  # the second claim meets the child
        query("SELECT id FROM claim(%s, NULL, 4)", worker)
    page = client.get(f"/jobs/{child}").text
    assert f'<a href="/jobs/{parent}">job {parent}</a>' in page
    assert 'class="wait parents"' in page
    assert 'class="wait slot"' not in page


def test_a_failed_job_says_that_it_halts_its_lane(client: TestClient, app: App) -> None:
    @app.task(name="shop.pay", on_failure="halt", lock="order:1")
    def pay() -> None:
        raise ValueError("no money")

    job = pay.defer()
    pay.defer()
    app.run_worker(wait=False)
    page = client.get(f"/jobs/{job}").text
    assert "lane order:1 is halted until you retry or skip this job" in page
    assert 'class="verdict plain fail"' in page
    lane = client.get("/lane?lock=order:1").text
    assert f'Failed <a href="/jobs/{job}">job {job}</a> shop.pay: attempt 1 failed' in lane
    assert 'class="verdict plain fail"' in lane


def test_the_times_of_a_sentence_are_marked() -> None:
    url = Links(Request({"type": "http"})).url
    assert link_ids("since 09:05:00Z (in 1s)", url) == (
        'since <time class="clock">09:05:00Z</time> (in 1s)'
    )
    assert link_ids("2031-01-31 20:15:00Z", url) == (
        '<time class="clock">2031-01-31 20:15:00Z</time>'
    )


def test_text_beside_the_id_of_a_job_stays_text() -> None:
    shown = link_ids("<b>job 7</b> & batch 8", Links(Request({"type": "http"})).url)
    assert shown == (
        '&lt;b&gt;<a href="/jobs/7">job 7</a>&lt;/b&gt; &amp; <a href="/batch?id=8">batch 8</a>'
    )
