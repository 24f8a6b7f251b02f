"""Another name for `inturn.errors`, which programs written for procrastinate import."""

from inturn.errors import *  # noqa: F403 (every error, also the next one)
from inturn.errors import InturnError

ProcrastinateException = InturnError  # so that an `except` for all of them needs no other name
