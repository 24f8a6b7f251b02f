"""Another name for `inturn.errors`, which some other queues use."""

from inturn.errors import *  # noqa: F403
