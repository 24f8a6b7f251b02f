"""The highest fence that a resource has seen."""

from inturn.arguments import check_text
from inturn.errors import BadArgument
from inturn.operations import Operation, Statement
from inturn.whole_numbers import HIGHEST_ID, is_whole

CHECK_FENCE = "SELECT {schema}.check_fence(%s, %s)"


def check_fence(resource: object, token: object) -> Operation[None]:
    """Remember the token, or raise if the resource has seen a higher one.

    The arguments are checked at once, before there is a connection.
    """
    if isinstance(resource, str):
        check_text("resource", resource)
    if not isinstance(resource, str) or not 1 <= len(resource.encode()) <= 1024:
        raise BadArgument(
            "resource", f"{resource!r:.80} is not a valid name. Use 1 to 1,024 bytes of text"
        )
    if not is_whole(token, -(2**63), HIGHEST_ID):
        raise BadArgument(
            "token", f"{token!r:.80} is not a fence. Pass the attempt's context.fence"
        )
    return _send(resource, token)


def _send(resource: str, token: object) -> Operation[None]:
    yield Statement(CHECK_FENCE, [resource, token])
