"""`inturn.errors` under the name that some other queues give it: `from inturn import exceptions` keeps working."""

from inturn.errors import *  # noqa: F403
