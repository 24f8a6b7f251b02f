"""For the `env.py` of a project that has Alembic migrations of its own in the same database: autogenerate leaves ours alone.

    from inturn.contrib.alembic import include_name, include_object

    context.configure(
        connection=connection,
        target_metadata=metadata,
        include_schemas=True,
        include_name=include_name,
        include_object=include_object,
    )

Of the two the first is enough, and the faster one: our schema is not even looked into. The second is for projects whose own
`include_name` lets the schema pass, or that have our tables in their metadata. If there are such functions already, ask both:
`include_name=lambda *args: mine(*args) and include_name(*args)`.
"""

from collections.abc import Callable
from typing import Any

from inturn.sql import SCHEMA


def ignoring(schema: str) -> tuple[Callable[..., bool], Callable[..., bool]]:
    """`include_name` and `include_object` for a queue in another schema than `inturn`.

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
