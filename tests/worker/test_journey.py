"""How far a reader must go to follow a job: files, functions, and calls from file to file.

The ceilings only ever fall. If a change needs more, shorten the path somewhere else.
"""

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import FrameType

import anyio
import pytest

import inturn
from inturn import App
from inturn.operations.engine import enqueue
from tests.conftest import Query
from tests.worker.parts import Parts

PACKAGE = str(Path(inturn.__file__).parent)


class Journey:
    """The functions of the package that were called, and the calls from one file to another."""

    def __init__(self) -> None:
        self.functions: set[tuple[str, str]] = set()
        self.moves: set[tuple[str, str, str]] = set()

    def note(self, frame: FrameType, event: str, _: object) -> None:
        file = frame.f_code.co_filename
        if event != "call" or not file.startswith(PACKAGE):
            return
        name = frame.f_code.co_qualname if sys.version_info >= (3, 11) else frame.f_code.co_name
        if name == "fill_schema":  # once for each statement, whichever job comes first
            return
        self.functions.add((file, name))
        caller = frame.f_back
        while caller is not None and not caller.f_code.co_filename.startswith(PACKAGE):
            caller = caller.f_back
        if caller is not None and caller.f_code.co_filename != file:
            self.moves.add((caller.f_code.co_filename, file, name))

    def measure(self) -> dict[str, int]:
        return {
            "files": len({file for file, _ in self.functions}),
            "functions": len(self.functions),
            "moves": len(self.moves),
        }


def check(journeys: list[Journey], **ceilings: int) -> None:
    """Check the least of each: on others, a connection was old, or a claim looked again."""
    measured = [each.measure() for each in journeys]
    found = {name: min(each[name] for each in measured) for name in ceilings}
    assert {name: found[name] for name in found if found[name] > ceilings[name]} == {}


@contextmanager
def follow() -> Iterator[Journey]:
    journey = Journey()
    sys.setprofile(journey.note)
    try:
        yield journey
    finally:
        sys.setprofile(None)


@pytest.mark.anyio
async def test_from_the_claim_to_the_report(app: App, query: Query) -> None:
    @app.task
    async def step() -> None: ...

    parts = Parts(app, concurrency=1)
    journeys: list[Journey] = []

    async def work() -> None:
        await parts.registration.register()
        for number in range(6):
            step.defer()
            parts.state.wakeups.wake()  # as the listener would
            with follow() as journey:
                while query("SELECT count(*) FROM finished_jobs") == [(number,)]:
                    await parts.loop.run_once()
            journeys.append(journey)

    with anyio.fail_after(120):
        await parts.running.serve(work)
        await parts.close()
    check(journeys, files=16, functions=83, moves=39)


def test_from_the_call_to_the_row(app: App, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(enqueue, "watchers", [])  # a process that counts them calls the counter

    @app.task
    def step(number: int) -> None: ...

    journeys = []
    for number in range(6):
        with follow() as journey:
            step.defer(number=number)
        journeys.append(journey)
    check(journeys, files=9, functions=24, moves=11)
