"""Errors that occur only in Django projects."""

from inturn.errors import InturnError


class ReadOnlyModel(InturnError):
    """A write through a model was refused, because only the queue's functions change its tables."""
