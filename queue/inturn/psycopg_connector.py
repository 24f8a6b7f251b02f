"""What programs import from here that were written for procrastinate."""

from inturn.database.connectors import PsycopgConnector

__all__ = ["PsycopgConnector"]
