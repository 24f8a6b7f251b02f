"""Public names, imported on first use and listed only once: in the package's stub."""

import ast
import sys
from importlib import import_module
from pathlib import Path


class LazyNames:
    """The public names of a package, as the stub beside its `__init__.py` imports them."""

    def __init__(self, package: str, file: str) -> None:
        self._package = package
        stub = ast.parse(Path(file).with_suffix(".pyi").read_text(encoding="utf-8"))
        self._modules = {
            alias.name: statement.module
            for statement in stub.body
            if isinstance(statement, ast.ImportFrom) and statement.module is not None
            for alias in statement.names
        }

    def sort(self) -> list[str]:
        """Return constants, classes and functions, in this order, as linters sort `__all__`.

        Modules are left out."""
        return sorted(
            (name for name, module in self._modules.items() if module != self._package),
            key=lambda name: (not name.isupper(), not name[0].isupper(), name),
        )

    def load(self, name: str) -> object:
        """Import a name and set it on the package, so that it is loaded only once."""
        if name not in self._modules:
            raise AttributeError(f"module {self._package!r} has no attribute {name!r}")
        module = self._modules[name]
        is_module = module == self._package
        value: object = (
            import_module(f"{module}.{name}") if is_module else getattr(import_module(module), name)
        )
        setattr(sys.modules[self._package], name, value)
        return value

    def list_all(self) -> list[str]:
        """Return what `dir` shows."""
        return [*vars(sys.modules[self._package]), *self._modules]
