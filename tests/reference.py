"""Write docs/api.md and the pages of docs/api from the docstrings.

A paragraph of a docstring that is Python code is an example, and a test runs it.
tests/reference_contents.py says which page describes what.
"""

import ast
import dataclasses
import functools
import inspect
import re
import textwrap
from collections.abc import Iterable, Iterator
from enum import StrEnum
from pathlib import Path
from typing import Any, NamedTuple

from inturn import errors, locks
from inturn.worker import Options
from tests.reference_contents import (
    GENERATED,
    IMPORTS,
    INTERNAL,
    INTRODUCTION,
    LOOKED_AT,
    MADE_BY_US,
    PAGES,
    SPOKEN,
    WITHOUT_ENTRY,
)

DOCS = Path(__file__).parent.parent / "docs"
INDEX = DOCS / "api.md"
FOLDER = DOCS / "api"
ABOUT = r"^([a-z_]+(?:, [a-z_]+)*):(?= )"
LINE = 90  # of a heading


class Named(NamedTuple):
    """A public name, its value and its documentation."""

    name: str
    value: Any

    @property
    def doc(self) -> str:
        text = inspect.cleandoc(self.value.__doc__ or "")
        # The default docstring of a dataclass or a NamedTuple is its signature.
        return "" if text.startswith(f"{self.name.rpartition('.')[2]}(") else text


class Place(NamedTuple):
    """Where something is described."""

    page: str
    entry: str
    anchor: str = ""


def entries() -> Iterator[Named]:
    for page in PAGES:
        yield from entries_of(page)


def entries_of(page: str) -> list[Named]:
    return [Named(name, value) for name, value in PAGES[page].entries.items()]


def members(entry: Named) -> list[Named]:
    """Return the public methods and properties of a class.

    Those of a base that has no entry of its own are included.
    """
    if not inspect.isclass(entry.value) or issubclass(entry.value, StrEnum):
        return []
    others = {
        base
        for other in entries()
        if inspect.isclass(other.value)
        for base in other.value.__mro__[:-1]
    }
    mine = [
        base
        for base in entry.value.__mro__
        if base is entry.value or base in WITHOUT_ENTRY.get(entry.name, ())
    ]
    told_there = {
        name for base in entry.value.__mro__ if base in others - set(mine) for name in vars(base)
    }
    found: dict[str, Any] = {}
    for base in mine:
        for name, value in vars(base).items():
            value = value.__func__ if isinstance(value, classmethod | staticmethod) else value
            is_ours = inspect.isfunction(value) or isinstance(value, property)
            # A method that only refuses, or is another form of the same, needs no entry.
            if is_ours and not name.startswith("_") and (value.__doc__ or name not in told_there):
                found.setdefault(name, value)
    hidden = INTERNAL.get(entry.name, ())
    return [Named(name, value) for name, value in found.items() if name not in hidden]


def blocks(doc: str) -> Iterator[tuple[str, bool]]:
    """Yield the paragraphs of a docstring, and whether each is code.

    Paragraphs of code that follow each other are joined.
    """
    code: list[str] = []
    for paragraph in doc.split("\n\n"):
        if is_code(paragraph):
            code.append(paragraph)
            continue
        if code:
            yield textwrap.dedent("\n\n".join(code)).rstrip(), True
            code = []
        if paragraph:
            yield paragraph.strip(), False
    if code:
        yield textwrap.dedent("\n\n".join(code)).rstrip(), True


def is_code(paragraph: str) -> bool:
    if paragraph.startswith("    "):
        return True
    try:
        return bool(ast.parse(paragraph).body)
    except SyntaxError:
        return False


def examples(named: Named) -> list[str]:
    return [text for text, code in blocks(named.doc) if code]


def signature(named: Named) -> str:
    """Return names and defaults. The types are in the code."""
    try:
        bare = inspect.signature(named.value)
    except (TypeError, ValueError):
        return named.name
    parameters = [
        p.replace(annotation=p.empty)
        for p in bare.parameters.values()
        if p.name not in ("self", "cls")
    ]
    text = named.name.rpartition(".")[2] + str(
        bare.replace(parameters=parameters, return_annotation=bare.empty)
    )
    text = text.replace("=Ellipsis", "=...")
    return f"{text} -> {returned(named.value)}" if inspect.isfunction(named.value) else text


def returned(function: Any) -> str:
    # From the source: what a type looks like when it is printed differs from one Python to the
    # next.
    (node,) = ast.parse(textwrap.dedent(inspect.getsource(function))).body
    assert isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
    # A name such as R_co says to type checkers how the variable may vary.
    text = ast.unparse(node.returns).replace("_co", "") if node.returns else "None"
    text = re.sub(r"^Operation\[(.*)\]$", r"\1", text)  # of a `blocking` method
    return re.sub(r"^(\w+)List$", r"list[\1]", text)


def written(doc: str, place: Place) -> Iterator[str]:
    for text, code in blocks(doc):
        yield f"```python\n{with_imports(text)}\n```" if code else with_links(as_list(text), place)


def with_imports(code: str) -> str:
    """Return an example with the imports of the names that it uses and does not define."""
    names = [node for node in ast.walk(ast.parse(code)) if isinstance(node, ast.Name)]
    own = {node.id for node in names if isinstance(node.ctx, ast.Store)} | set(
        re.findall(r"import (\w+)", code)
    )
    modules: dict[str, set[str]] = {}
    for name in {node.id for node in names} & IMPORTS.keys() - own:
        modules.setdefault(IMPORTS[name], set()).add(name)
    lines = [f"import {name}" for name in sorted(modules.pop("", set()))]
    lines += [
        f"from {module} import {', '.join(sorted(found))}"
        for module, found in sorted(modules.items())
    ]
    return "\n".join([*lines, "", code] if lines else [code])


def with_links(text: str, place: Place) -> str:
    """Turn the names of pages, and of what has a heading in the reference, into links."""
    text = re.sub(r"\bdocs/([a-z-]+\.md)\b", r"[\1](../\1)", text)
    return re.sub(r"(\b[Ss]ee\s+)?(`([\w.]+)(?:\(\))?`)", functools.partial(link, place), text)


def link(place: Place, span: re.Match[str]) -> str:
    """Return a name as a link. A short one can be anything, unless the text says to look there."""
    see, code, name = span.groups(default="")
    here = f"{SPOKEN.get(place.entry, place.entry)}.{name}"
    to = places().get(here) or places().get(name)
    if to is None or not (see or ("." in name and to.entry != place.entry)):
        return span[0]
    return f"{see}[{code}]({'' if to.page == place.page else f'{to.page}.md'}#{to.anchor})"


@functools.cache
def places() -> dict[str, Place]:
    """Return where all that is named once is described, by the names that docstrings use."""
    found: dict[str, list[Place]] = {}
    for page in PAGES:
        anchors: set[str] = set()
        for entry in entries_of(page):
            place = Place(page, entry.name, add_anchor(entry.name, anchors))
            for name in {entry.name, entry.name.rpartition(".")[2]}:
                found.setdefault(name, []).append(place)
            for member, text in headings(entry):
                place = Place(page, entry.name, add_anchor(text, anchors))
                for name in spoken(entry.name, member.name):
                    found.setdefault(name, []).append(place)
    return {name: each[0] for name, each in found.items() if len(each) == 1}


def spoken(entry: str, member: str) -> set[str]:
    """Return the names by which docstrings mention a member of an entry."""
    owner = SPOKEN.get(entry, entry)
    return {member, f"{owner}.{member}", f"{owner.removeprefix('app.')}.{member}"}


def add_anchor(heading: str, anchors: set[str]) -> str:
    """Return the anchor of a heading, as GitHub and Sphinx make it, beside those of its page."""
    anchor = re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-")
    numbered = (f"{anchor}-{number}" if number else anchor for number in range(99))
    anchors.add(free := next(each for each in numbered if each not in anchors))
    return free


def as_list(text: str) -> str:
    """Turn lines that begin with their subject into the points of a list."""
    if not re.match(ABOUT, text):
        return text
    return "\n".join(
        re.sub(ABOUT, r"* `\1`:", line) if re.match(ABOUT, line) else f"  {line}"
        for line in text.split("\n")
    )


def broken(text: str) -> str:
    lines = textwrap.wrap(
        text, 100, subsequent_indent="    ", break_long_words=False, break_on_hyphens=False
    )
    return "\n".join(["```python", *lines, "```"])


def fields(value: Any) -> list[str]:
    """Return the fields of a class that users read but never construct."""
    if not inspect.isclass(value) or value is Options:
        return []
    if issubclass(value, StrEnum):
        return [f"{value.__name__}.{member.name}" for member in value]
    if dataclasses.is_dataclass(value) and value in LOOKED_AT:
        return [field.name for field in dataclasses.fields(value) if field.repr]
    if hasattr(value, "_fields") or "__required_keys__" in vars(value):
        return list(value.__annotations__)
    return []


def render_entry(entry: Named, page: str) -> Iterator[str]:
    """Yield an entry of a page, in blocks."""
    place = Place(page, entry.name)
    yield f"## `{entry.name}`"
    if names := fields(entry.value):
        yield ", ".join(f"`{name}`" for name in names)
    elif (
        callable(entry.value)
        and entry.value not in MADE_BY_US
        and "(" in (text := signature(entry))
    ):
        yield broken(text)
    yield from written(entry.doc, place)
    for member, heading in headings(entry):
        text = signature(member)
        yield f"### {heading}"
        if len(text) > LINE:
            yield broken(text)
        yield from written(member.doc, place)


def headings(entry: Named) -> Iterator[tuple[Named, str]]:
    """Yield the members of an entry with their headings. A twin stands in that of the other."""
    found = members(entry)
    names = {member.name for member in found}
    for member in found:
        if member.name.removesuffix("_async") not in names - {member.name}:
            twin = f", `{member.name}_async`" if f"{member.name}_async" in names else ""
            text = signature(member)
            yield member, f"`{text if len(text) <= LINE else member.name}`{twin}"


def first_sentence(value: Any) -> str:
    if not (inspect.isclass(value) or inspect.isroutine(value)):
        return f"`{value!r}`"  # a constant
    doc = inspect.cleandoc(value.__doc__ or "")
    return " ".join(doc.split("\n\n")[0].split())


def all_errors() -> list[type[BaseException]]:
    classes = [
        value
        for value in vars(errors).values()
        if inspect.isclass(value) and issubclass(value, BaseException)
    ]
    return sorted(classes, key=lambda error: error.__name__)


def all_locks() -> list[Named]:
    return [Named(name, getattr(locks, name)) for name in vars(locks)["__all__"]]


def pages() -> dict[Path, str]:
    """Return the text of each file."""
    points = [f"* [{page.title}](api/{name}.md): {page.about}" for name, page in PAGES.items()]
    index = f"{GENERATED}\n{INTRODUCTION}\n" + "\n".join(points) + "\n"
    return {INDEX: index} | {FOLDER / f"{name}.md": write_page(name) for name in PAGES}


def write_page(name: str) -> str:
    page = PAGES[name]
    parts = [f"{GENERATED}\n# {page.title}"]
    if page.entries:
        parts.append("[About examples](../api.md#the-examples).")
    for entry in entries_of(name):
        parts += render_entry(entry, name)
    if name == "errors":
        parts += list_errors()
    if name == "locks":
        parts += list_locks()
    return "\n\n".join(parts) + "\n"


def list_errors() -> Iterator[str]:
    yield (
        "They are in `inturn.errors`. All of them except `Snoozed` are an `InturnError`. "
        "`inturn.exceptions` is another name for the module."
    )
    yield listing((error.__name__, first_sentence(error)) for error in all_errors())


def list_locks() -> Iterator[str]:
    yield (
        "They are in `inturn.locks`. Which one when, and how to use them: [locks.md](../locks.md). "
        "Each class of locks but `FileLock` has an async twin, such as `AsyncPgLock`."
    )
    names = {lock.name for lock in all_locks()}
    yield listing(
        (lock.name, first_sentence(lock.value))
        for lock in all_locks()
        if lock.name.removeprefix("Async") not in names - {lock.name}
    )


def listing(rows: Iterable[tuple[str, str]]) -> str:
    return "\n".join(f"* `{name}`: {text}" for name, text in rows)


def main() -> None:
    texts = pages()
    FOLDER.mkdir(exist_ok=True)
    for file in set(FOLDER.glob("*.md")) - texts.keys():
        file.unlink()
    for file, text in texts.items():
        file.write_text(text, encoding="utf-8")
    print(f"wrote {INDEX.relative_to(Path.cwd())} and {len(texts) - 1} pages in docs/api")


if __name__ == "__main__":
    main()
