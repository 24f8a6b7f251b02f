"""Write these pages for language models: llms.txt, llms-full.txt, and each page as plain Markdown.

llms.txt follows https://llmstxt.org. The lists in index.md give the pages, their order and what
each is about. A page with a folder of the same name lists the pages in it, as api.md lists those of
api/. Addresses are relative unless Sphinx knows that of the site:
`sphinx -D html_baseurl=https://…/`.
"""

import posixpath
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple
from urllib.parse import urljoin

REPOSITORY = "https://github.com/inturn/inturn/blob/main/"
CONTRIBUTORS = "For contributors"  # the chapter that stays out of llms-full.txt
ENTRY = r"^\* \[([^]]+)\]\((\w[\w/-]*)\.md\): (.+(?:\n  .+)*)"
FENCE = re.compile(r"^ *```.*?^ *```$", re.MULTILINE | re.DOTALL)


class Entry(NamedTuple):
    """A page as a list names it."""

    title: str
    page: str
    about: str


def write(docs: Path, site: Path, base: str = "") -> None:
    """Write the text files beside the HTML of these pages."""
    for source in docs.rglob("*.md"):
        page = source.relative_to(docs).with_suffix("").as_posix()
        target = site / f"{page}.md"
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text(plain(read(docs, page), page), encoding="utf-8")
    (site / "llms.txt").write_text(outline(docs, base), encoding="utf-8")
    (site / "llms-full.txt").write_text(join_pages(docs, base), encoding="utf-8")


def read(docs: Path, page: str) -> str:
    return (docs / f"{page}.md").read_text(encoding="utf-8")


def split_chapters(text: str) -> dict[str, str]:
    """Return the parts of index.md by their headings."""
    return dict(re.findall(r"(?ms)^## (.+?)\n(.*?)(?=^## |\Z)", text))


def list_entries(text: str) -> list[Entry]:
    found = re.findall(ENTRY, text, re.MULTILINE)
    return [Entry(title, page, " ".join(about.split())) for title, page, about in found]


def list_pages(docs: Path) -> dict[str, list[Entry]]:
    """Return the pages of each chapter of index.md, in the order of the bar."""
    return {
        chapter: [page for entry in list_entries(text) for page in with_folder(docs, entry)]
        for chapter, text in split_chapters(read(docs, "index")).items()
    }


def with_folder(docs: Path, entry: Entry) -> list[Entry]:
    folder = docs / entry.page
    return [entry, *(list_entries(read(docs, entry.page)) if folder.is_dir() else [])]


def outline(docs: Path, base: str) -> str:
    """Return llms.txt."""
    index = plain(read(docs, "index"), "index")
    parts = [
        f"# {title_of(index)}",
        f"> {summary(index)}",
        f"[llms-full.txt]({urljoin(base, 'llms-full.txt')}) has all pages for users in one file.",
    ]
    for chapter, entries in list_pages(docs).items():
        lines = [
            f"- [{title}]({urljoin(base, page)}.md): {without_links(about)}"
            for title, page, about in entries
        ]
        parts += [f"## {chapter}", "\n".join(lines)]
    return "\n\n".join(parts) + "\n"


def join_pages(docs: Path, base: str) -> str:
    """Return llms-full.txt."""
    index = plain(read(docs, "index"), "index")
    chapters = list_pages(docs)
    del chapters[CONTRIBUTORS]
    parts = [f"# {title_of(index)}: all pages for users", f"> {summary(index)}"]
    for entry in (entry for entries in chapters.values() for entry in entries):
        text = with_addresses(plain(read(docs, entry.page), entry.page), entry.page, base)
        heading, _, body = text.partition("\n")
        address = f"Address: {urljoin(base, entry.page)}.html"
        parts.append(f"{heading}\n\n{address}\n\n{body.strip()}")
    return "\n\n".join(parts) + "\n"


def title_of(text: str) -> str:
    return next(re.finditer(r"^# (.+)$", text, re.MULTILINE))[1]


def summary(index: str) -> str:
    """Return the first sentence of the text."""
    paragraph = index.split("\n\n")[1]
    return " ".join(re.split(r"(?<=\.)\s", paragraph)[0].split())


def plain(text: str, page: str) -> str:
    """Return a page as it reads beside its HTML."""
    text = re.sub(r"^<!--.*?-->\n+", "", text, flags=re.DOTALL | re.MULTILINE)
    # Sphinx puts all pictures into one folder.
    up = "../" * page.count("/")
    text = re.sub(r"\]\((?:\.\./)*images/([\w.-]+)\)", rf"]({up}_images/\1)", text)
    return lead_to_repository(text, page)


def lead_to_repository(text: str, page: str) -> str:
    """Let links that leave docs/ lead to the repository."""
    folder = posixpath.join("docs", posixpath.dirname(page))

    def lead(link: str) -> str:
        target = posixpath.normpath(posixpath.join(folder, link))
        return link if target.startswith("docs/") else REPOSITORY + target

    return change_links(text, lambda link: lead(link) if link.startswith("../") else link)


def with_addresses(text: str, page: str, base: str) -> str:
    """Let links that are relative to this page be relative to the site."""

    def lead(link: str) -> str:
        if ":" in link:
            return link
        path, mark, anchor = link.partition("#")
        path = posixpath.join(posixpath.dirname(page), path) if path else f"{page}.md"
        return urljoin(base, posixpath.normpath(path)) + mark + anchor

    return change_links(text, lead)


def without_links(text: str) -> str:
    return re.sub(r"\[([^]]+)\]\([^)]+\)", r"\1", text)


def change_links(text: str, change: Callable[[str], str]) -> str:
    """Change the targets of all links, except in blocks of code."""

    def parts() -> Iterator[str]:
        end = 0
        for fence in FENCE.finditer(text):
            yield change_outside(text[end : fence.start()])
            yield fence[0]
            end = fence.end()
        yield change_outside(text[end:])

    def change_outside(part: str) -> str:
        return re.sub(r"\]\(([^)\s]+)\)", lambda link: f"]({change(link[1])})", part)

    return "".join(parts())
