"""`queue top` and `--watch`, on terminals and in pipes."""

import json
import os
import re
import signal
import sys
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path

import pytest

from inturn.cli.live.look import Meter
from inturn.operations.reading.overview import Counts
from tests.cli.calling import PATIENCE, SCRIPT, clean, type_in
from tests.cli.conftest import Run, Start, Until
from tests.cli.engine import Engine
from tests.cli.terminal import Terminal
from tests.cli.test_help import options_of, words_of_all
from tests.proxy import Faulty
from tests.roles import LOGINS, as_login, grant_roles
from tests.waiting import wait_until

HOSTILE = "r'x\x1b[2J\u202e"
OpenTop = Callable[..., Terminal]


@pytest.fixture
def open_terminal(folder: Path, dsn: str) -> Iterator[OpenTop]:
    """Run `queue` on a terminal, which looks several times a second."""
    opened: list[Terminal] = []

    def open_terminal(
        *words: str, size: tuple[int, int] = (40, 120), address: str = dsn, **environment: str
    ) -> Terminal:
        variables = clean({"INTURN_DSN": address, "TERM": "xterm-256color", **environment})
        terminal = Terminal([SCRIPT, *words], size, cwd=folder, env=variables)
        opened.append(terminal)
        return terminal

    yield open_terminal
    for terminal in opened:
        terminal.close()


@pytest.fixture
def top(open_terminal: OpenTop) -> OpenTop:
    return lambda *words, **more: open_terminal("top", "--interval", "0.2", *words, **more)


def halt(engine: Engine, lock: str, error: str = "CardTimeout: no answer") -> int:
    """Let a job fail that halts its lane, with one behind it."""
    failed = engine.defer("charge", lock=lock, on_failure="halt")
    engine.fail(engine.claim(), None, f"Traceback\n{error}")
    engine.defer("send", lock=lock)
    return failed


@pytest.mark.landing
def test_a_lane_that_gets_stuck_appears_with_the_reason_and_a_command_that_unblocks_it(
    engine: Engine, top: OpenTop, folder: Path, dsn: str
) -> None:
    engine.sign_on()
    terminal = top()
    terminal.until(lambda page: "none in use or stopped" in page)
    failed = halt(engine, "order:4711")
    page = terminal.until(lambda page: "order:4711" in page)
    assert re.search(
        rf"order:4711  halted \d+s, 1 waiting  job {failed} charge failed: CardTimeout", page
    )
    assert "lanes: 1 halted" in page
    (command,) = re.findall(r"unblock: once the cause is fixed: (.*)", page)
    assert command == "queue lanes retry-head order:4711"
    assert type_in(command, INTURN_DSN=dsn).returncode == 0
    terminal.until(lambda page: "halted" not in page)
    assert engine.claim()[0] == failed


def make_paused(engine: Engine) -> None:
    engine.defer("t", lock="lane")
    engine.query("SELECT pause_lane('lane', 'bank is down', NULL, 'me')")


def make_retrying(engine: Engine) -> None:
    engine.defer("t", lock="lane")
    engine.fail(engine.claim(), "5 minutes", "boom")


def make_renamed(engine: Engine) -> None:
    engine.defer("t", lock="lane")
    engine.fail(engine.claim(), "30 seconds", "boom")
    engine.query("UPDATE workers SET tasks = '{other}'")


def make_idle(engine: Engine) -> None:
    engine.defer("t", lock="other")
    engine.claim()
    engine.query(
        "SELECT defer_jobs('{t}', '{\"{}\"}', NULL, NULL, NULL, NULL, NULL,"
        " p_lanes => '{lane,other}', p_lanes_of => '{1,1}')"
    )


def make_stalled(engine: Engine) -> None:
    engine.defer("t", lock="lane")
    engine.claim()
    engine.query("UPDATE workers SET heartbeat_at = now() - interval '1 hour'")


def make_unserved(engine: Engine) -> None:
    engine.defer("t", lock="lane", queue="lonely")


def make_unknown(engine: Engine) -> None:
    engine.sign_on(["other"])
    engine.defer("t", lock="lane")


def make_limited(engine: Engine) -> None:
    engine.query("SELECT set_limit('bank', 1, NULL, NULL, NULL, 'me')")
    for lock in ("first", "lane"):
        engine.query(
            "INSERT INTO jobs (created_at, status, task, lock, limit_key) "
            "VALUES (now(), 'todo', 't', %s, 'bank')",
            lock,
        )
    engine.claim()
    engine.query("SELECT claim(%s, '{default}', 1)", engine.query("SELECT id FROM workers")[0][0])


@pytest.mark.parametrize(
    ("make", "state", "why", "unblock"),
    [
        (make_paused, "paused", "by me: bank is down", "queue lanes resume lane"),
        (make_retrying, "retrying", r"job 1 t, retry at .*: boom", "queue lanes retry-head lane"),
        (make_stalled, "stalled", "worker w has sent no heartbeat since", "queue .*worker"),
        (make_unserved, "unserved", "no live worker serves queue lonely", "queue .*worker"),
        (make_unknown, "unknown", "no worker of queue default knows task t", "deploy the code"),
        (make_renamed, "unknown", "no worker of queue default knows task t", "deploy the code"),
        (make_idle, "idle", "^waits for lane other$", "queue .*lanes explain other"),
        (make_limited, "limited", "1 job of limit bank has started, 1 allowed; the next starts when",
         "if it hangs: queue .*jobs cancel --abort 1; if you can allow more: queue .*limits set"),
    ],
    ids=lambda value: value if isinstance(value, str) else None,
)  # fmt: skip
def test_each_kind_of_a_lane_that_does_not_move_has_its_reason(
    make: Callable[[Engine], None], state: str, why: str, unblock: str | None,
    engine: Engine, queue: Run,
) -> None:  # fmt: skip
    make(engine)
    found = {lane["lock"]: lane for lane in look(queue)["troubled"]}["lane"]
    assert found["state"] == state
    assert re.match(why, found["why"]), found
    assert found["unblock"] is None if unblock is None else re.match(unblock, found["unblock"])


def test_a_delayed_lane_names_the_transaction_that_delays_it(engine: Engine, queue: Run) -> None:
    engine.sign_on()
    other = Engine(engine.dsn)
    job = engine.defer("t", lock="lane")
    engine.query("INSERT INTO lanes (lock, since, look_at) VALUES "
                 "('lane', now(), now() + interval '1 minute')")  # fmt: skip
    other.query("BEGIN")
    other.query("SELECT FROM jobs WHERE id = %s FOR UPDATE", job)
    # A younger transaction is not named.
    wait_until(lambda: "has job" in look(queue)["troubled"][0]["why"])
    (found,) = look(queue)["troubled"]
    other.close()
    assert found["state"] == "delayed"
    assert f"has job {job} locked" in found["why"]
    assert "pg_terminate_backend" in found["unblock"]


def look(queue: Run) -> dict[str, list[dict[str, str]]]:
    ended = queue("top", "--once", "--json")
    assert ended.returncode == 0, ended.stderr
    seen: dict[str, list[dict[str, str]]] = json.loads(ended.stdout)
    return seen


def test_the_worst_lanes_come_first_and_lanes_in_use_last(engine: Engine, queue: Run) -> None:
    engine.sign_on()
    halt(engine, "a")
    engine.defer("t", lock="b")
    engine.fail(engine.claim(), "5 minutes", "boom")
    engine.defer("t", lock="c")
    engine.query("SELECT pause_lane('c', NULL, NULL, 'me')")
    engine.defer("t", lock="0")
    engine.claim()
    lanes = look(queue)["troubled"]
    assert [lane["state"] for lane in lanes] == ["halted", "paused", "retrying", "held"]
    limited = queue("top", "--once", "--json", "--limit", "2")
    assert len(json.loads(limited.stdout)["troubled"]) == 2


def test_a_limit_that_holds_jobs_is_named(engine: Engine, queue: Run) -> None:
    make_limited(engine)
    (limit,) = look(queue)["limits"]
    assert limit["pattern"] == "bank"
    assert str(limit["limited"]) == "1"
    engine.query("DELETE FROM jobs WHERE status = 'limited'")
    assert look(queue)["limits"] == []
    assert "LIMIT" not in queue("top").stdout.replace("LIMITED", "")


def test_the_head_counts_the_lanes_below_it_by_their_states(engine: Engine, queue: Run) -> None:
    make_unserved(engine)
    engine.sign_on()
    engine.defer("t", lock="blocked")
    engine.claim()
    engine.query("SELECT heartbeat(id, '1 minute') FROM workers")
    page = queue("top", "--once").stdout
    assert re.search(r"^lanes: 1 stalled, 1 unserved$", page, re.MULTILINE), page


def test_a_limit_that_holds_jobs_without_a_lock_comes_with_the_words_of_explain(
    engine: Engine, queue: Run
) -> None:
    engine.sign_on()
    engine.query("SELECT set_limit('bank', 1)")
    for _ in range(2):
        engine.query("SELECT defer('t', limit_key => 'bank')")
    engine.claim()
    engine.query("SELECT claim((SELECT id FROM workers), '{default}', 1)")
    page = queue("top", "--once").stdout
    explained = queue("jobs", "explain", "2").stdout
    assert (
        "1 job of limit bank has started, 1 allowed; the next starts when one ends: job 1 (t) since"
        in page
    )
    command = (
        "unblock: if it hangs: queue jobs cancel --abort 1; "
        "if you can allow more: queue limits set --concurrency 2 bank"
    )
    assert command in page
    assert command in explained


def test_a_task_that_no_worker_knows_is_not_to_be_retried_before_it_is_deployed(
    engine: Engine, queue: Run
) -> None:
    engine.sign_on()
    make_retrying(engine)
    engine.query("UPDATE workers SET tasks = '{other}'")
    (lane,) = look(queue)["troubled"]
    command = "deploy the code of its task, then: queue lanes retry-head lane"
    assert lane["unblock"] == command
    assert command in queue("lanes", "explain", "lane").stdout


def test_queues_without_a_worker_and_unknown_tasks_come_with_a_command(
    engine: Engine, queue: Run
) -> None:
    engine.sign_on(["other"])
    engine.defer("t", queue="lonely")
    engine.defer("unheard")
    out = queue("top").stdout
    assert re.search(r"no live worker serves queue lonely: queue .*worker --queues lonely", out)
    assert (
        "no live worker of queue default knows task unheard: deploy the code that declares it; "
        in out
    )


@pytest.mark.landing
def test_rates_are_the_jobs_that_ended_between_two_looks(engine: Engine, top: OpenTop) -> None:
    engine.sign_on()
    terminal = top()
    # The first page may be gone before we look.
    terminal.until(lambda _: "jobs a second: after the next refresh" in terminal.drawn)
    terminal.until(lambda page: "0.0 ended, 0.0 deferred" in page)
    for _ in range(20):
        engine.defer("t")
        engine.fail(engine.claim(), None, "boom")
    engine.query("SELECT pg_stat_force_next_flush()")
    page = terminal.until(lambda page: "20 jobs failed in the last minute" in page)
    terminal.until(lambda page: re.search(r"second: [1-9]\d*\.\d ended, [1-9]", page))
    assert "workers: 1 live" in page


def test_a_rate_is_an_average_over_ten_seconds_and_begins_anew_with_the_server() -> None:
    clock = iter(range(14))
    meter = Meter(clock=lambda: float(next(clock)))
    rates = [meter.read(Counts(100 + 20 * at, 50 + at * at, 3)) for at in range(13)]
    assert rates[0].ended is None
    assert (rates[-1].deferred, rates[-1].failed_last_minute) == (20.0, 3)
    assert rates[-1].ended == (12**2 - 2**2) / 10
    assert meter.read(Counts(5, 5, 0)).ended is None, "a server that has crashed counts from 0"


@pytest.mark.landing
def test_ctrl_c_ends_it_with_0_and_gives_the_terminal_back(top: OpenTop) -> None:
    terminal = top()
    terminal.until_page(2)
    terminal.press("\x03")
    assert terminal.end() == 0
    terminal.assert_is_as_before()
    assert "Traceback" not in terminal.drawn


@pytest.mark.landing
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_gives_the_terminal_back(number: signal.Signals, top: OpenTop) -> None:
    terminal = top()
    terminal.until_page(2)
    terminal.process.send_signal(number)
    assert terminal.end() == (143 if number == signal.SIGTERM else 0)
    terminal.assert_is_as_before()


@pytest.mark.landing
def test_q_ends_it_and_p_pauses_it(engine: Engine, top: OpenTop) -> None:
    engine.sign_on()
    terminal = top()
    terminal.until(lambda page: "every 0.2s" in page)
    terminal.press("p")
    terminal.until(lambda page: "paused" in page)
    halt(engine, "order:4711")
    engine.query("SELECT pg_sleep(0.6)")  # three looks, if it were not paused
    pages = terminal.pages
    terminal.press("x")  # any key draws the page once more
    terminal.until_page(pages + 1)
    assert "order:4711" not in terminal.page
    terminal.press("p")
    terminal.until(lambda page: "order:4711" in page and "every 0.2s" in page)
    terminal.press("q")
    assert terminal.end() == 0
    terminal.assert_is_as_before()


@pytest.mark.landing
def test_ctrl_z_gives_the_terminal_back_until_it_goes_on(top: OpenTop) -> None:
    terminal = top()
    terminal.until_page(2)
    terminal.process.send_signal(signal.SIGTSTP)
    os.waitid(os.P_PID, terminal.process.pid, os.WSTOPPED | os.WNOWAIT)
    terminal.assert_is_as_before()
    pages = terminal.pages
    terminal.process.send_signal(signal.SIGCONT)
    terminal.until_page(pages + 2)
    terminal.press("q")
    assert terminal.end() == 0


def test_ctrl_z_gives_the_terminal_back_while_a_page_is_made() -> None:
    """Then `sys.stdout` is not the terminal."""
    code = (
        "import os, signal; from inturn.cli.output.screen import capture, open_screen\n"
        "with open_screen() as screen:\n"
        "    page = capture(lambda: os.kill(os.getpid(), signal.SIGTSTP))\n"
        "    screen.show(f'page: {page!r}')\n"
        "    screen.wait(None)\n"
    )
    with closing(Terminal([sys.executable, "-c", code])) as terminal:
        os.waitid(os.P_PID, terminal.process.pid, os.WSTOPPED | os.WNOWAIT)
        terminal.assert_is_as_before()
        terminal.process.send_signal(signal.SIGCONT)
        terminal.until(lambda page: "page: ''" in page)
        terminal.press("q")
        assert terminal.end() == 0


@pytest.mark.landing
def test_it_says_that_the_database_is_away_and_goes_on(
    engine: Engine, top: OpenTop, faulty_server: tuple[Faulty, str]
) -> None:
    proxy, address = faulty_server
    engine.sign_on()
    terminal = top(address=address, size=(30, 40))
    terminal.until(lambda page: "workers: 1 live" in page)
    proxy.refuse()
    proxy.reset()
    page = terminal.until(lambda page: "No refresh for" in page and "cannot be reached" in page)
    assert "workers: 1 live" in page, "what was seen last stays"
    assert max(map(len, page.splitlines())) <= 40
    proxy.heal()
    halt(engine, "order:4711")
    page = terminal.until(lambda page: "order:4711" in page)
    assert "No refresh for" not in page
    terminal.press("q")
    assert terminal.end() == 0


@pytest.mark.landing
def test_a_look_that_takes_too_long_is_given_up(engine: Engine, top: OpenTop) -> None:
    engine.sign_on()
    terminal = top()
    terminal.until(lambda page: "workers: 1 live" in page)
    with engine._connection.transaction():
        engine.query("LOCK TABLE workers IN ACCESS EXCLUSIVE MODE")
        terminal.until(lambda page: "statement timeout" in page)
    page = terminal.until(lambda page: "No refresh for" not in page)
    assert "statement timeout" not in page


@pytest.mark.fresh_database
def test_an_operator_may_watch(engine: Engine, queue: Run, dsn: str) -> None:
    engine.sign_on()
    halt(engine, "order:4711")
    grant_roles(dsn)
    ended = queue("top", "--dsn", as_login(dsn, LOGINS["operator"]))
    assert ended.returncode == 0, ended.stderr
    assert "order:4711  halted" in ended.stdout


def test_without_a_database_it_does_not_start(queue: Run) -> None:
    ended = queue("top", "--dsn", "host=127.0.0.1 port=1")
    assert ended.returncode == 69
    assert "cannot be reached" in ended.stderr


@pytest.mark.landing
def test_hostile_names_are_shown_as_escapes_and_the_command_still_works(
    engine: Engine, top: OpenTop, folder: Path, dsn: str
) -> None:
    engine.sign_on()
    halt(engine, HOSTILE, "\x1b]0;title\x07 \x1b[31mred")
    terminal = top()
    page = terminal.until(lambda page: "halted" in page)
    assert r"r'x\x1b[2J\u202e  halted" in page
    for evil in ("\x1b[2J", "\x1b]0;", "\x1b[31mred", "\x07", "\u202e"):
        assert evil not in terminal.drawn
    (command,) = re.findall(r"fixed: (queue .*)", page)
    done = type_in(command, INTURN_DSN=dsn)
    assert done.returncode == 0, done.stderr


@pytest.mark.landing
@pytest.mark.parametrize("columns", [40, 80, 200])
def test_the_page_fits_the_terminal_and_no_command_is_cut(
    columns: int, engine: Engine, top: OpenTop
) -> None:
    engine.sign_on()
    for number in range(3):
        halt(engine, f"order:{number}-with-a-rather-long-name", "CardTimeout: " + "no " * 60)
    terminal = top(size=(60, columns))
    page = terminal.until(lambda page: page.count("unblock:") == 3)
    assert max(map(len, page.splitlines())) <= columns
    words = page.replace("\n", " ").split()
    behind = [words[place + 1] for place, word in enumerate(words) if word == "retry-head"]
    assert behind == [f"order:{number}-with-a-rather-long-name" for number in range(3)]


@pytest.mark.landing
def test_a_new_size_is_used_at_once_and_what_does_not_fit_is_counted(
    engine: Engine, top: OpenTop
) -> None:
    engine.sign_on()
    for number in range(15):
        halt(engine, f"order:{number}")
    terminal = top("--interval", "3600", size=(80, 120), LINES="24", COLUMNS="80")
    page = terminal.until(lambda page: page.count("unblock:") == 15)
    assert "more" not in page
    terminal.resize(20, 60)
    page = terminal.until(lambda page: "more" in page)
    assert len(page.splitlines()) <= 20
    assert max(map(len, page.splitlines())) <= 60
    assert "order:0" in page
    assert re.search(r"… \d+ more: queue lanes list", page)


@pytest.mark.parametrize("words", [["top"], ["top", "--once"]])
def test_in_a_pipe_it_prints_once(words: list[str], engine: Engine, queue: Run) -> None:
    engine.sign_on()
    halt(engine, "order:4711")
    ended = queue(*words)
    assert (ended.returncode, ended.stderr) == (0, "")
    assert "\x1b" not in ended.stdout
    assert "queue lanes retry-head order:4711" in ended.stdout


@pytest.mark.landing
def test_once_prints_on_a_terminal_as_any_command(open_terminal: OpenTop) -> None:
    terminal = open_terminal("top", "--once")
    assert terminal.end() == 0
    assert "\x1b[?1049h" not in terminal.drawn


def test_a_queue_whose_jobs_all_wait_for_others_is_named_too_if_no_worker_serves_it(
    engine: Engine, queue: Run
) -> None:
    engine.defer(lock="a")
    engine.claim()
    engine.defer(lock="a", queue="slow")
    assert "no live worker serves queue slow" in queue("top", "--once").stdout


# ---------------------------------------------------------------- --watch


@pytest.mark.parametrize(
    "words", [words for words in words_of_all() if words[-1:] == ["list"]], ids=" ".join
)
def test_every_list_can_be_watched(words: list[str]) -> None:
    assert "--watch" in options_of(words)


def test_nothing_but_a_list_can_be_watched(queue: Run) -> None:
    ended = queue("lanes", "show", "x", "--watch")
    assert ended.returncode == 2


@pytest.mark.landing
def test_a_list_is_watched_in_place_until_ctrl_c(engine: Engine, open_terminal: OpenTop) -> None:
    engine.sign_on()
    terminal = open_terminal("lanes", "list", "--watch=0.2", size=(20, 60))
    terminal.until(lambda page: "No lane is in use" in page)
    halt(engine, HOSTILE)
    page = terminal.until(lambda page: "halted" in page)
    assert r"\x1b[2J" in page
    assert max(map(len, page.splitlines())) <= 60
    terminal.press("\x03")
    assert terminal.end() == 0
    terminal.assert_is_as_before()


@pytest.mark.landing
def test_a_watched_list_survives_an_outage(
    engine: Engine, open_terminal: OpenTop, faulty_server: tuple[Faulty, str]
) -> None:
    proxy, address = faulty_server
    terminal = open_terminal("workers", "list", "--watch=0.2", address=address)
    terminal.until(lambda page: "No worker is running" in page)
    proxy.refuse()
    proxy.reset()
    terminal.until(lambda page: "cannot be reached" in page)
    engine.sign_on()
    proxy.heal()
    terminal.until(lambda page: "live" in page)
    terminal.press("q")
    assert terminal.end() == 0


@pytest.mark.landing
def test_in_a_pipe_a_watched_list_is_printed_again_and_again(
    engine: Engine, start: Start, folder: Path, until: Until, dsn: str
) -> None:
    engine.sign_on()
    process = start("workers", "list", "--watch", "0.1", "-o", "jsonl", INTURN_DSN=dsn)
    out = folder / "out"
    until(lambda: out.read_text().count("\n") >= 3)
    process.send_signal(signal.SIGINT)
    assert process.wait(PATIENCE) == 0
    assert all(json.loads(line)["name"] == "w" for line in out.read_text().splitlines())


def test_a_mistake_is_reported_as_without_watch(queue: Run) -> None:
    ended = queue("workers", "list", "--name", "x", "--watch")
    assert ended.returncode == 3
    assert "No worker named x" in ended.stderr
    assert queue("workers", "list", "--watch", "0").returncode == 2
