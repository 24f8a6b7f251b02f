"""How Sphinx builds these pages: `make docs`.

They are plain Markdown, so that they read the same on GitHub. Three things are translated. The
lists in index.md, and in a page with a folder of the same name, become the tables of contents.
Links that leave this folder lead to the repository. A comment such as <!-- Search: stuck --> lets a
search for the word begin there. `mend` and `name_landmarks` add what people without a mouse or a
screen need. llms.py writes beside the pages what language models read.

The decisions are for contributors: all of them are built, but the bar only has their index.
"""

from __future__ import annotations

import re
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pygments.lexers.sql import PostgresLexer

if TYPE_CHECKING:
    from sphinx.application import Sphinx

sys.path.insert(0, str(Path(__file__).parents[1]))
from docs import llms

project = "inturn"
author = "the inturn authors"
extensions = ["myst_parser"]
source_suffix = {".md": "markdown"}
myst_heading_anchors = 4  # the same anchors as on GitHub
html_theme = "furo"
html_title = "inturn"
html_static_path = ["static"]
html_css_files = ["site.css"]
html_search_scorer = str(Path(__file__).with_name("static") / "scorer.js")
templates_path = ["templates"]
# The site looks like the dashboard.
WEB = Path(__file__).parents[1] / "queue/inturn/web"
html_favicon = str(WEB / "assets/icon.svg")
html_context = {"mark": (WEB / "templates/mark.svg").read_text(encoding="utf-8")}
COLOURS = {
    "color-brand-primary": "accent",
    "color-brand-content": "accent",
    "color-brand-visited": "accent",
    "color-background-primary": "surface",
    "color-background-secondary": "ground",
    "color-background-border": "line",
    "color-foreground-primary": "text",
    "color-foreground-secondary": "muted",
    "color-foreground-muted": "muted",
}


def read_colours(theme: int) -> dict[str, str]:
    """Return the colours of the dashboard for the light theme (0) or the dark one (1)."""
    style = (WEB / "assets/style.css").read_text(encoding="utf-8")
    pairs = re.findall(r"--([a-z-]+): light-dark\((#\w+), (#\w+)\)", style)
    found = {name: pair[theme] for name, *pair in pairs}
    return {name: found[colour] for name, colour in COLOURS.items()}


html_theme_options = {
    "light_css_variables": read_colours(0),
    "dark_css_variables": read_colours(1),
    "source_repository": "https://github.com/inturn/inturn/",
    "source_branch": "main",
    "source_directory": "docs/",
}
html_copy_source = False
LANDMARKS = {
    '<aside class="sidebar-drawer': '<aside aria-label="All pages" class="sidebar-drawer',
    '<aside class="toc-drawer': '<aside aria-label="On this page" class="toc-drawer',
    '<div class="content-icon-c': '<div role="region" aria-label="Tools" class="content-icon-c',
}


def translate(app: Sphinx, page: str, source: list[str]) -> None:
    source[0] = llms.lead_to_repository(source[0], page)
    source[0] = re.sub(r"<!-- Search: (.+) -->", add_search_words, source[0])
    source[0] = re.sub(r"(?m)^!\[(.+)\]\((images/.+)\.png\)$", add_dark_picture, source[0])
    if page.startswith("decisions/") and page != "decisions/index":
        source[0] = f"---\norphan: true\n---\n\n{source[0]}"
    if (Path(app.srcdir) / page).is_dir():
        source[0] += write_toctree(source[0])
    if page == "index":
        source[0] = re.sub(r"(?ms)^## (.+?)\n(.*?)(?=^## |\Z)", add_toctree, source[0])
        source[0] = f"---\nhide-toc: true\n---\n\n{source[0]}"  # it has the whole width


def add_toctree(chapter: re.Match[str]) -> str:
    return chapter[0] + write_toctree(chapter[2], f":caption: {chapter[1]}\n")


def add_search_words(comment: re.Match[str]) -> str:
    """Let a search for one of these words begin with this place."""
    words = ", ".join(f"! {word}" for word in comment[1].split(", "))
    return f"```{{index}} {words}\n```"


def add_dark_picture(picture: re.Match[str]) -> str:
    """Show the picture of the dark theme where the site is dark."""
    alt, name = picture.groups()
    if not (Path(__file__).parent / f"{name}-dark.png").exists():
        return picture[0]
    return "\n".join(
        f"```{{image}} {file}.png\n:alt: {alt}\n:class: only-{theme}\n:loading: lazy\n```\n"
        for theme, file in (("light", name), ("dark", f"{name}-dark"))
    )


def write_toctree(text: str, options: str = "") -> str:
    pages = "\n".join(entry.page for entry in llms.list_entries(text))
    return f"\n```{{toctree}}\n:hidden:\n{options}\n{pages}\n```\n\n"


def mend(app: Sphinx, page: str, template: str, context: dict[str, Any], _: object) -> None:
    tree = context.get("furo_navigation_tree", "")
    context["furo_navigation_tree"] = tree.replace(
        'role="heading"', 'role="heading" aria-level="2"'
    )
    if context.get("page_source_suffix"):  # the search has none
        name = f"{page.rpartition('/')[2]}.md"
        link = f'<link rel="alternate" type="text/markdown" href="{name}">'
        context["metatags"] = context.get("metatags", "") + link
    if page == "index":  # it must stay light, and a search seldom leads to it
        context["script_files"] = [
            file for file in context["script_files"] if "sphinx_highlight" not in file.filename
        ]
    # Wide code and tables are scrolled, also with the keyboard.
    wide = r'<pre(?=>)|<div(?= class="table-wrapper)'
    context["body"] = re.sub(wide, r'\g<0> tabindex="0"', context.get("body") or "")


def name_landmarks(site: Path) -> None:
    """Name the parts of a page for people who cannot see where one ends. The theme has no hook."""
    for file in site.rglob("*.html"):
        text = file.read_text(encoding="utf-8")
        for part, named in LANDMARKS.items():
            text = text.replace(part, named)
        file.write_text(text, encoding="utf-8")


def finish(app: Sphinx, error: Exception | None) -> None:
    if error is None and app.builder.format == "html":
        name_landmarks(Path(app.outdir))
        llms.write(Path(app.srcdir), Path(app.outdir), app.config.html_baseurl)


def setup(app: Sphinx) -> None:
    app.connect("source-read", translate)
    app.connect("html-page-context", mend, priority=900)  # after the theme
    app.connect("build-finished", finish)
    app.add_lexer("sql", PostgresLexer)  # the usual one does not know $$
