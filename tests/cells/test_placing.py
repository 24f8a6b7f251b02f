"""A lock and an id are in the same cell in Python and in SQL."""

import psycopg
import pytest
from hypothesis import given
from hypothesis import strategies as st

from inturn import App
from inturn.cells.placing import cell_of_id
from inturn.errors import BadArgument
from inturn.tasks.lanes import cell_of
from inturn.tasks.options import CheckedOptions
from tests.cells.conftest import COUNT

LOCKS = [
    "customer:ann",
    "{tenant:7}order:9",
    "a{b}c{d}",
    "{}x",
    "}{",
    "ü\n{é}",
    "{a",
    "x" * 1000,
    "{{a}",
]


def test_known_cells_never_change() -> None:
    locks = ("customer:ann", "{tenant:7}order:9", "tenant:7")
    assert [cell_of(lock, 16) for lock in locks] == [2, 10, 10]


def test_python_and_sql_agree(dsns: list[str]) -> None:
    with psycopg.connect(dsns[0]) as connection:

        @given(st.lists(st.text(st.characters(codec="utf-8", exclude_characters="\0"), min_size=1)))
        def agree(texts: list[str]) -> None:
            locks = LOCKS + texts + [f"{{{text}}}a" for text in texts]
            for cells in (1, 7, COUNT, 1000, 1024):
                asked = "SELECT inturn_00.cell_of(unnest(%s::text[]), %s)"
                found = [cell for (cell,) in connection.execute(asked, [locks, cells])]
                assert found == [cell_of(lock, cells) for lock in locks]

        agree()


def test_ids_name_their_cell_and_rise_within_a_lane(app: App) -> None:
    @app.task
    def write(n: int) -> None: ...

    for n in range(3 * COUNT):
        lock = f"lane:{n}"
        first, second = (write.configure(lock=lock).defer(n) for _ in range(2))
        assert cell_of_id(first, COUNT) == cell_of_id(second, COUNT) == cell_of(lock, COUNT)
        assert second - first == 1024
    batches = {app.cell(cell).batches.open("all") % 1024 for cell in range(COUNT)}
    assert batches == set(range(COUNT))
    with pytest.raises(BadArgument, match="id: 1023 is in cell 1023, but this map has the cells 0"):
        app.job_manager.explain(1023)


def test_a_cell_key_becomes_a_part_of_each_lock() -> None:
    keyed = CheckedOptions().change({"cell": "tenant:7", "lock": ["b", "a"]})
    assert keyed.lock.locks == ("{tenant:7}a", "{tenant:7}b")
    assert keyed.change({"priority": 1}).lock == keyed.lock, "only once"
    assert keyed.change({"lock": "c"}).lock == "{tenant:7}c"
    assert cell_of("{tenant:7}c", 16) == cell_of("tenant:7", 16)
    with pytest.raises(BadArgument, match="contains braces, which are added to it"):
        keyed.change({"cell": "{a}"})


def test_another_cell_key_replaces_the_first() -> None:
    once = CheckedOptions().change({"cell": "default", "lock": "order"})
    assert once.change({"cell": "tenant:7"}).lock == "{tenant:7}order"
    assert once.change({"cell": "tenant:7", "lock": "b"}).lock == "{tenant:7}b"
    own = CheckedOptions().change({"lock": "order{tenant:7}"})
    assert own.change({"cell": "tenant:7"}).lock == "order{tenant:7}", "it is there already"
    with pytest.raises(BadArgument, match=r"cell: 'a' differs from the cell key in the lock 'or"):
        own.change({"cell": "a"})
    with pytest.raises(BadArgument, match=r"cell: 7 is the number of a cell. Pass a cell key"):
        once.change({"cell": 7})
