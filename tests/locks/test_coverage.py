"""Every statement has its tests, and COVERAGE.md lists them."""

from tests.locks import statements


def test_every_statement_and_every_defect_has_a_test_of_its_number() -> None:
    assert set(statements.statements()) - set(statements.find_tests()) == set()


def test_no_test_carries_a_number_that_nobody_gave() -> None:
    assert set(statements.find_tests()) - set(statements.statements()) == set()


def test_coverage_is_up_to_date() -> None:
    written = statements.COVERAGE.read_text(encoding="utf-8")
    assert written == statements.coverage(), "run: python tests/locks/statements.py"
