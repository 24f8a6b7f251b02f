"""What the quick tests cost beside what is written down."""

from tests.weight import compare


def test_more_than_a_tenth_more_of_anything_is_named() -> None:
    record = {"processes": 100, "megabytes of WAL": 10}
    assert compare({"processes": 110, "megabytes of WAL": 11}, record) == ""
    assert compare({"processes": 111}, record) == "111 processes instead of 100"
