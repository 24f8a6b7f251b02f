"""The first command and the first page name what nobody has described, and mislead nobody."""

from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path

import pytest

from inturn.embedded import Server
from inturn.schema.migrate import migrate
from tests.cli.calling import invoke
from tests.oncall.nights import AT_ONCE, WITH_PROCESSES, Night
from tests.oncall.scene import LANE, Scene
from tests.oncall.verdict import read_first_page
from tests.waiting import wait_until

pytestmark = pytest.mark.fresh_database
NIGHTS = WITH_PROCESSES | AT_ONCE


@pytest.fixture
def scene(dsn: str, folder: Path) -> Iterator[Scene]:
    with closing(Scene(dsn, folder)) as scene:
        yield scene


@pytest.mark.parametrize(
    "happen",
    [*AT_ONCE, *(pytest.param(each, marks=pytest.mark.landing) for each in WITH_PROCESSES)],
    ids=lambda happen: happen.__name__,
)
def test_the_first_command_and_the_first_page_name_it(
    happen: Callable[[Scene], int], scene: Scene
) -> None:
    night: Night = NIGHTS[happen]
    job = happen(scene)
    said: list[str] = []

    def ask(*words: str) -> str:
        return invoke(*words, folder=scene.folder, env=scene.environment()).output

    def is_named() -> bool:
        said[:] = [ask("doctor"), read_first_page(scene.dsn), ask("jobs", "explain", str(job))]
        named = (night.doctor, night.page, night.explain)
        return all(words in face for words, face in zip(named, said, strict=True))

    wait_until(is_named, explain=lambda: said)
    assert not [words for words in night.never if words in "\n".join(said)], said


def test_a_lane_that_only_looks_like_the_one_you_typed_is_named(scene: Scene) -> None:
    for name in (f"{LANE} ", "cafe\u0301:1"):
        scene.defer("send", lock=name)
    for typed, meant in ((LANE, f"{LANE} "), ("caf\u00e9:1", "cafe\u0301:1")):
        said = invoke("lanes", "explain", typed, env=scene.environment()).output
        assert f"Did you mean {meant!r}?" in said


@pytest.mark.landing
def test_a_prepared_transaction_that_somebody_left_has_a_name_and_a_remedy(
    folder: Path, bin_dir: Path | None
) -> None:
    settings = {"max_prepared_transactions": "1"}
    with Server(bin_dir=bin_dir, settings=settings) as server:
        migrate(server.dsn())
        with closing(Scene(server.dsn(), folder)) as scene:
            job = scene.defer("send")
            scene.engine.query("BEGIN")
            scene.engine.query("SELECT FROM jobs WHERE id = %s FOR UPDATE", job)
            scene.engine.query("PREPARE TRANSACTION 'deploy-17'")
            assert scene.engine.query("SELECT pid, application, state FROM open_transactions") == [
                (None, "deploy-17", "prepared")
            ]
            busy = "SELECT detail, unblock FROM explain(%s) WHERE reason = 'busy'"
            [(detail, remedy)] = scene.engine.query(busy, job)
            assert "it was prepared as 'deploy-17'" in detail
            scene.engine.query(remedy[remedy.index("ROLLBACK") :])
            assert scene.engine.query(busy, job) == []
            scene.engine.query("BEGIN")
            scene.engine.query("LOCK TABLE jobs, lanes")
            scene.engine.query("PREPARE TRANSACTION 'deploy-18'")
            asked = invoke("doctor", folder=folder, env=scene.environment()).output
            assert "prepared transaction deploy-18 has locked jobs, lanes for" in asked
            assert "if it is abandoned: ROLLBACK PREPARED 'deploy-18'" in asked
            scene.engine.query("ROLLBACK PREPARED 'deploy-18'")


def test_ten_nights_are_tried() -> None:
    assert len(NIGHTS) == 10
