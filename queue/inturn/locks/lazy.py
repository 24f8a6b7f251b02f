"""Public names that are imported when they are first used, listed once: in the package's stub."""

import ast
from pathlib import Path


def read_stub(package_file: str) -> dict[str, str]:
    """Return the module of each name that the stub beside `package_file` imports."""
    stub = ast.parse(Path(package_file).with_suffix(".pyi").read_text(encoding="utf-8"))
    return {
        alias.name: statement.module
        for statement in stub.body
        if isinstance(statement, ast.ImportFrom) and statement.module is not None
        for alias in statement.names
    }


def sort_names(names: dict[str, str]) -> list[str]:
    """Sort constants, classes and functions, in this order, as the linter sorts an `__all__`."""
    return sorted(names, key=lambda name: (not name.isupper(), not name[0].isupper(), name))
