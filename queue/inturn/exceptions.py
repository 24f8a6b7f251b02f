"""An alias of `inturn.errors` for programs written for procrastinate."""

from inturn.errors import *  # noqa: F403 (every error, also the next one)
from inturn.errors import InturnError

ProcrastinateException = InturnError  # so that an `except` for all errors works unchanged
