"""Each defect that was found from outside, as a test named after it; the fixtures are those of tests/flow."""

from tests.flow.conftest import app, query, until

__all__ = ["app", "query", "until"]
