"""How Sphinx builds these pages: `make docs`.

They are plain Markdown, so that they read the same on GitHub. Two things are translated: the lists
in index.md become the tables of contents, and links that leave this folder lead to the repository.
The pages also lack two things that people without a mouse or a screen need.

The decisions are for contributors: they are built, but stay out of the bar.
"""

import posixpath
import re
from typing import Any

from pygments.lexers.sql import PostgresLexer
from sphinx.application import Sphinx

REPOSITORY = "https://github.com/inturn/inturn/blob/main/"

project = "inturn"
author = "the inturn authors"
extensions = ["myst_parser"]
source_suffix = {".md": "markdown"}
myst_heading_anchors = 4  # the same anchors as on GitHub
html_theme = "furo"
html_title = "inturn"
html_theme_options = {
    "source_repository": "https://github.com/inturn/inturn/",
    "source_branch": "main",
    "source_directory": "docs/",
}
html_copy_source = False


def translate(app: Sphinx, page: str, source: list[str]) -> None:
    folder = posixpath.join("docs", posixpath.dirname(page))

    def lead(link: re.Match[str]) -> str:
        target = posixpath.normpath(posixpath.join(folder, link[1]))
        return link[0] if target.startswith("docs/") else f"]({REPOSITORY}{target})"

    source[0] = re.sub(r"\]\((\.\./[^)\s]+)\)", lead, source[0])
    if page.startswith("decisions/"):
        source[0] = f"---\norphan: true\n---\n\n{source[0]}"
    if page == "index":
        source[0] = re.sub(r"(?ms)^## (.+?)\n(.*?)(?=^## |\Z)", add_toctree, source[0])


def add_toctree(chapter: re.Match[str]) -> str:
    listed = re.findall(r"^\* \[([^]]+)\]\((\w[\w-]*)\.md\)", chapter[2], re.MULTILINE)
    pages = "\n".join(f"{title} <{page}>" for title, page in listed)
    return f"{chapter[0]}\n```{{toctree}}\n:hidden:\n:caption: {chapter[1]}\n\n{pages}\n```\n\n"


def mend(app: Sphinx, page: str, template: str, context: dict[str, Any], _: object) -> None:
    tree = context.get("furo_navigation_tree", "")
    context["furo_navigation_tree"] = tree.replace(
        'role="heading"', 'role="heading" aria-level="2"'
    )
    # Wide code and tables are scrolled, also with the keyboard.
    wide = r'<pre(?=>)|<div(?= class="table-wrapper)'
    context["body"] = re.sub(wide, r'\g<0> tabindex="0"', context.get("body") or "")


def setup(app: Sphinx) -> None:
    app.connect("source-read", translate)
    app.connect("html-page-context", mend, priority=900)  # after the theme
    app.add_lexer("sql", PostgresLexer)  # the usual one does not know $$
