"""Whether Citus has distributed the queue's tables, which it must not; see docs/cells.md."""

from inturn.operations import Operation, Statement, ask

HAS_CITUS = "SELECT EXISTS (SELECT FROM pg_catalog.pg_extension WHERE extname = 'citus')"
# A schema of Citus has no distributed tables before the first is created.
IS_DISTRIBUTED = """
SELECT EXISTS (
    SELECT FROM pg_catalog.citus_schemas WHERE schema_name::text = quote_ident(%s)
) OR EXISTS (
    SELECT FROM pg_catalog.pg_dist_partition
    JOIN pg_catalog.pg_class ON pg_class.oid = logicalrelid
    WHERE relnamespace = to_regnamespace(quote_ident(%s))
)
"""
DISTRIBUTED = (
    "Citus has distributed the schema {schema!r}, where it cannot run a claim. Undistribute it "
    "(citus_schema_undistribute), or use another schema: ordinary tables on a node work"
)
# Functions that Citus may call on another node, but not within a transaction.
DELEGATED = """
SELECT DISTINCT proname FROM pg_catalog.pg_dist_object
JOIN pg_catalog.pg_proc ON pg_proc.oid = objid
WHERE classid = 'pg_catalog.pg_proc'::regclass
  AND pronamespace = to_regnamespace(quote_ident(%s))
  AND (distribution_argument_index IS NOT NULL OR colocationid IS NOT NULL)
ORDER BY proname
"""


def is_distributed(schema: str) -> Operation[bool]:
    """Return True if the schema or one of its tables is distributed."""
    has_citus = yield from ask(bool, HAS_CITUS)
    return has_citus and (yield from ask(bool, IS_DISTRIBUTED, schema, schema))


def list_delegated(schema: str) -> Operation[list[str]]:
    """Return the functions that Citus delegates; see docs/cells-citus.md."""
    if not (yield from ask(bool, HAS_CITUS)):
        return []
    return [str(name) for (name,) in (yield Statement(DELEGATED, [schema]))]
