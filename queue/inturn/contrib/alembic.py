"""Keep Alembic's autogenerate away from the queue's schema.

Use this in `env.py` if your project has Alembic migrations in the same database:

    from inturn.contrib.alembic import include_name, include_object

    context.configure(
        connection=connection,
        target_metadata=metadata,
        include_schemas=True,
        include_name=include_name,
        include_object=include_object,
    )

Usually `include_name` is enough, and faster, because Alembic then does not read our schema at all.
You need `include_object` if your own `include_name` accepts the schema, or if our tables are in
your metadata. To combine it with a function of yours: `include_name=lambda *args: mine(*args) and
include_name(*args)`.
"""

from collections.abc import Callable
from typing import Any

from inturn.sql import SCHEMA


def ignoring(schema: str) -> tuple[Callable[..., bool], Callable[..., bool]]:
    """Return `include_name` and `include_object` for a queue in a schema other than `inturn`.

    include_name, include_object = ignoring("jobs")
    assert not include_name("jobs", "schema") and include_name("shop", "schema")
    """

    def include_name(name: str | None, type_: str, parent_names: Any = None, /) -> bool:
        return not (type_ == "schema" and name == schema)

    def include_object(
        object_: Any, name: str | None, type_: str, reflected: bool, compare_to: Any, /
    ) -> bool:
        table = object_ if type_ == "table" else getattr(object_, "table", None)
        return getattr(table, "schema", None) != schema

    return include_name, include_object


include_name, include_object = ignoring(SCHEMA)
