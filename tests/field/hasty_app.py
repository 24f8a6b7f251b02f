"""The app of field_app, with a connector that doubts a silent server after one second.

The default is two and a half seconds.
"""

from inturn import PsycopgConnector
from tests.field.field_app import app

__all__ = ["app"]
app.connector = PsycopgConnector(timeout=2.0)
