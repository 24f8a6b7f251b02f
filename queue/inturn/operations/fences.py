"""The highest fence that a resource has seen."""

from inturn.operations import Operation, Statement

CHECK_FENCE = "SELECT {schema}.check_fence(%s, %s)"


def check(resource: str, token: int) -> Operation[None]:
    yield Statement(CHECK_FENCE, [resource, token])
