"""Names that programs written for procrastinate import from here."""

from inturn.database.connectors import PsycopgConnector

__all__ = ["PsycopgConnector"]
