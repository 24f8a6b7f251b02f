"""The database, as the checks read it."""

from typing import Protocol, TypeVar

from inturn.operations import Operation

T = TypeVar("T")


class RunOperation(Protocol):
    def __call__(self, operation: Operation[T], /) -> T: ...


class Reader(Protocol):
    """Runs operations in the schema of a queue."""

    schema: str

    def run(self, operation: Operation[T]) -> T: ...
