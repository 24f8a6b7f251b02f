"""One queue over many PostgreSQL servers: see docs/cells.md, and docs/decisions/cells.md for why.

An app without cells does not import this package.
"""
