"""What the log says about jobs, for people and for error trackers."""

import logging
import re
from datetime import timedelta

import pytest

from inturn import App, JobContext, RetryStrategy
from inturn.worker.error_text import MAX_CHARACTERS
from tests.conftest import Query

LOGGER = "inturn.jobs"


def find(caplog: pytest.LogCaptureFixture, action: str) -> logging.LogRecord:
    [record] = [each for each in caplog.records if getattr(each, "action", None) == action]
    return record


def test_a_failure_is_logged_with_its_exception_and_says_which_attempt_it_was(
    app: App, caplog: pytest.LogCaptureFixture
) -> None:
    @app.task(retry=RetryStrategy(max_attempts=1), name="shop.pay", lock="customer")
    def pay() -> None:
        raise ValueError("card declined\nsecond line")

    pay.defer()
    with caplog.at_level(logging.INFO, LOGGER):
        app.run_worker()
    again, failed = find(caplog, "job_error_retry"), find(caplog, "job_error")
    assert re.fullmatch(
        r"job.retry_scheduled: 1 shop.pay, attempt 1 of 2, lasted \d\.\d{3} s, again in 0 s: "
        r"ValueError: card declined",
        again.getMessage(),
    )
    assert "attempt 2 of 2" in failed.getMessage()
    assert (again.levelname, failed.levelname) == ("WARNING", "ERROR")
    assert failed.exc_info is not None
    kind, error, frames = failed.exc_info
    assert kind is ValueError
    assert str(error).startswith("card declined")
    assert frames is not None
    assert frames.tb_frame.f_code.co_name == "pay"  # none of the worker's own frames
    assert failed.__dict__["duration"] >= 0
    assert failed.__dict__["lock"] == "customer"


def test_of_an_endless_chain_of_causes_the_end_is_logged(
    app: App, caplog: pytest.LogCaptureFixture
) -> None:
    @app.task(name="shop.pay")
    def pay() -> None:
        error: Exception | None = None
        for number in range(1000):
            cause, error = error, ValueError(f"cause {number}")
            error.__cause__ = cause
        assert error is not None
        raise error

    pay.defer()
    with caplog.at_level(logging.INFO, LOGGER):
        app.run_worker()
    failed = find(caplog, "job_error")
    lines = logging.Formatter().format(failed).splitlines()
    assert lines[0].startswith("job.failed: 1 shop.pay, attempt 1")
    assert lines[-1] == "ValueError: cause 999"
    assert failed.exc_info is None
    assert len("".join(lines)) < 2 * MAX_CHARACTERS


@pytest.mark.parametrize(("level", "has_traceback"), [("INFO", False), ("DEBUG", True)])
def test_a_retry_takes_one_line_unless_you_debug(
    app: App, caplog: pytest.LogCaptureFixture, level: str, has_traceback: bool
) -> None:
    @app.task(retry=RetryStrategy(max_attempts=1), name="shop.pay")
    def pay() -> None:
        raise ValueError("card declined")

    pay.defer()
    with caplog.at_level(level, LOGGER):
        app.run_worker()
    assert (find(caplog, "job_error_retry").exc_info is not None) == has_traceback
    assert find(caplog, "job_error").exc_info is not None


def test_an_attempt_beyond_the_last_one_is_not_called_the_second_of_one(
    app: App, caplog: pytest.LogCaptureFixture
) -> None:
    @app.task(name="shop.pay")
    def pay() -> None:
        raise ValueError("card declined")

    job = pay.defer()
    app.run_worker()
    caplog.clear()
    app.job_manager.retry_job_by_id(job)
    with caplog.at_level(logging.INFO, LOGGER):
        app.run_worker()
    assert "1 shop.pay, attempt 2, lasted" in find(caplog, "job_error").getMessage()


@pytest.mark.parametrize(
    ("wait", "words"), [(0.25, "0.25 s"), (1.968, "2 s"), (59.4, "59 s"), (300.4, "0:05:00")]
)
def test_a_wait_is_logged_as_a_person_would_say_it(
    app: App, caplog: pytest.LogCaptureFixture, wait: float, words: str
) -> None:
    runs: list[int] = []

    @app.task(pass_context=True)
    def shop(context: JobContext) -> None:
        runs.append(1)
        if len(runs) == 1:  # a worker that is slow runs it again
            context.snooze(timedelta(seconds=wait))

    shop.configure(lock="x").defer()
    with caplog.at_level(logging.INFO, LOGGER):
        app.run_worker()
    assert find(caplog, "job_snoozed").getMessage().endswith(f": for {words}")


def test_a_success_says_how_long_it_took(app: App, caplog: pytest.LogCaptureFixture) -> None:
    @app.task(name="shop.pay")
    def pay() -> None: ...

    pay.defer()
    with caplog.at_level(logging.DEBUG, LOGGER):
        app.run_worker()
    assert find(caplog, "start_job").getMessage() == "job.started: 1 shop.pay"
    assert re.fullmatch(
        r"job.succeeded: 1 shop.pay, lasted \d\.\d{3} s", find(caplog, "job_success").getMessage()
    )


def test_a_timeout_is_logged_with_its_exception(app: App, caplog: pytest.LogCaptureFixture) -> None:
    @app.task(timeout=0.01, pass_context=True)
    def slow(context: JobContext) -> None:
        while not context.should_abort():
            pass

    slow.defer()
    app.run_worker()
    failed = find(caplog, "job_error")
    assert failed.exc_info is not None
    assert "JobTimeout" in failed.getMessage()


def test_a_def_that_returns_a_coroutine_is_awaited(app: App, query: Query) -> None:
    ran: list[str] = []

    async def work() -> str:
        ran.append("work")
        return "done"

    @app.task(name="wrapped")
    def wrapped() -> object:
        return work()

    wrapped.defer()
    app.run_worker()
    assert ran == ["work"]
    assert query("SELECT status::text, result FROM finished_jobs") == [("succeeded", "done")]
