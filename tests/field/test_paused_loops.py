"""A worker in somebody else's process, whose event loop pauses and goes on.

That is what `asyncio.Runner`, notebooks and test frameworks do. The heartbeat once took such a loop
for dead, and ended the process.
"""

import asyncio
from collections.abc import Callable

import anyio
import pytest

from inturn import App
from tests.conftest import Query
from tests.field.conftest import Start

pytestmark = pytest.mark.landing

HOST = """
import asyncio, os, sys
import psycopg
from tests.field.field_app import app
from tests.waiting import wait_until

connection = psycopg.connect(os.environ["INTURN_DSN"], autocommit=True)

def sees(statement):
    return connection.execute(statement).fetchone() is not None

def pause():
    '''Come back when the heartbeat has seen that the loop does not turn.'''
    wait_until(lambda: sees(
        "SELECT FROM inturn.workers WHERE heartbeat_at - loop_turned_at > interval '1 s'"))

async def start():
    global worker
    worker = asyncio.create_task(app.run_worker_async(update_heartbeat_interval=0.2))
    while not sees("SELECT FROM pg_stat_activity WHERE datname = current_database() "
                   "AND application_name = 'inturn heartbeat'"):
        await asyncio.sleep(0.01)

async def end():
    while not sees("SELECT FROM inturn.finished_jobs"):
        await asyncio.sleep(0.01)
    worker.cancel()
    await asyncio.wait([worker])
"""
RUNNER = """
with asyncio.Runner() as runner:
    runner.run(start())
    pause()
    app.configure_task("tests.field.field_app.say").defer(word="hello")
    runner.run(end())
"""
PIECES = """
loop = asyncio.new_event_loop()
loop.run_until_complete(start())
pause()
app.configure_task("tests.field.field_app.say").defer(word="hello")
loop.run_until_complete(end())
"""
STOPPED = """
loop = asyncio.new_event_loop()
loop.create_task(start()).add_done_callback(lambda _: loop.stop())
loop.run_forever()
pause()
app.configure_task("tests.field.field_app.say").defer(word="hello")
loop.create_task(end()).add_done_callback(lambda _: loop.stop())
loop.run_forever()
"""
CLOSED = """
loop = asyncio.new_event_loop()
loop.run_until_complete(start())
loop.close()
wait_until(lambda: not sees("SELECT FROM inturn.workers"))
app.configure_task("tests.field.field_app.say").defer(word="hello")
with asyncio.Runner() as runner:
    runner.run(start())
    runner.run(end())
"""
TEST_CASE = """
import unittest

class Case(unittest.IsolatedAsyncioTestCase):
    async def asyncSetUp(self):
        await start()

    def test_without_a_loop(self):
        pause()
        app.configure_task("tests.field.field_app.say").defer(word="hello")

    async def asyncTearDown(self):
        await end()

result = unittest.TextTestRunner().run(unittest.defaultTestLoader.loadTestsFromTestCase(Case))
assert result.wasSuccessful()
"""
BREAKPOINT = """
async def main():
    await start()
    pause()
    app.configure_task("tests.field.field_app.say").defer(word="hello")
    await end()

asyncio.run(main())
"""
THREADS = """
from threading import Thread

@app.task
async def break_loop() -> None:
    asyncio.get_running_loop()._selector.close()

def work():
    app.run_worker(update_heartbeat_interval=0.2)

def go_on():
    wait_until(lambda: sees("SELECT FROM inturn.workers"))
    break_loop.defer()
    wait_until(lambda: sees("SELECT FROM inturn.jobs WHERE errors -> 0 ->> 'crashed' = 'true'"))
    print("the host goes on", file=sys.stderr)

for each in (work, go_on):
    Thread(target=each).start()  # the main thread ends before them
"""
END = "print('the host goes on', file=sys.stderr)"
HOSTS = {
    "a runner": RUNNER,
    "pieces": PIECES,
    "a stopped loop": STOPPED,
    "another loop": CLOSED,
    "a test case": TEST_CASE,
    "a breakpoint": BREAKPOINT,
}


@pytest.mark.parametrize("host", HOSTS.values(), ids=list(HOSTS))
def test_a_worker_leaves_its_host_alone_and_goes_on_when_the_loop_does(
    run_python: Start, app: App, query: Query, task_log: Callable[[], list[str]], host: str
) -> None:
    process = run_python("-c", HOST + host + END)
    _, stderr = process.communicate(timeout=120)
    assert process.returncode == 0, stderr
    assert "the host goes on" in stderr
    assert task_log() == ["hello"]
    assert query("SELECT FROM workers") == []


def test_a_worker_in_a_thread_ends_no_host_whose_main_thread_has_ended(run_python: Start) -> None:
    process = run_python("-c", HOST + THREADS)
    _, stderr = process.communicate(timeout=120)
    assert "loop.dead" in stderr
    assert "the host goes on" in stderr
    assert process.returncode == 0, stderr


def test_a_worker_runs_in_a_thread_beside_a_loop_of_anyio(app: App, query: Query) -> None:
    app.task(name="hello")(lambda: None)
    app.configure_task("hello").defer()
    anyio.run(asyncio.to_thread, app.run_worker)
    assert query("SELECT status::text FROM finished_jobs") == [("succeeded",)]
