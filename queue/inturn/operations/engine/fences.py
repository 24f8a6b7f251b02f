"""The highest fence that a resource has seen."""

from inturn.operations import Operation, Statement

CHECK_FENCE = "SELECT {schema}.check_fence(%s, %s)"


def check_fence(resource: str, token: int) -> Operation[None]:
    """Remember the token, or raise if the resource has seen a higher one."""
    yield Statement(CHECK_FENCE, [resource, token])
