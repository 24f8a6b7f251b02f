"""Templates, the files that pages load, and the formatting of values.

Every text that a template prints passes `finalize`, which makes invisible and control characters
visible. Then Jinja escapes it.
"""

import hashlib
import json
import re
from collections.abc import Callable, Mapping
from datetime import datetime, timedelta
from functools import cache, partial
from pathlib import Path
from typing import Any
from urllib.parse import quote, urlencode

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup, escape

from inturn.formatting import (
    amount,
    at_least,
    brief,
    iso,
    last_line,
    list_remedies,
    name_command,
    relative,
    size,
    span,
    visible,
    with_times,
)

NAMED_ID = re.compile(r"\b(job|batch) ([0-9]{1,19})\b", re.IGNORECASE)
CLOCK = re.compile(r"\b(?:\d{4}-\d\d-\d\d[ T])?\d\d:\d\d:\d\d(?:\.\d+)?Z\b")
ASSETS = Path(__file__).parent / "assets"
LONGEST_TEXT = 20_000  # characters of a traceback or an argument


@cache
def _get_version() -> str:
    """Return the part of the addresses of assets that changes with their contents."""
    digest = hashlib.sha256()
    for file in sorted(ASSETS.rglob("*")):
        if file.is_file():
            digest.update(file.read_bytes())
    return digest.hexdigest()[:12]


@cache
def make_environment(program: str = "queue", cell: int | None = None) -> Environment:
    """Return the templates, whose advice names the program and the cell."""
    named = partial(name_command, program=program, cell=cell)
    environment = Environment(
        loader=PackageLoader("inturn.web"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        finalize=_show,
    )
    environment.globals["assets"] = _get_version()
    environment.filters.update(
        amount=amount,
        ago=show_ago,
        brief=brief,
        count=at_least,
        json=show_json,
        last_line=last_line,
        lines=show_lines,
        linked=link_ids,
        named=named,
        remedies=lambda advice: [
            (named(text) if is_command else text, is_command)
            for text, is_command in list_remedies(advice)
        ],
        size=size,
        span=span,
        times=with_times,
    )
    return environment


def make_url(root: str, path: str, query: Mapping[str, Any]) -> Markup:
    """Return an address below the dashboard's mount prefix."""
    given = {name: value for name, value in query.items() if value not in (None, "")}
    text = quote(root + path, safe="/:~") + (f"?{urlencode(given)}" if given else "")
    return escape(text)


def show_ago(at: datetime | None, now: datetime) -> Markup:
    """Return a time as `48s ago`, with the exact one as its title."""
    if at is None:
        return Markup("–")
    return Markup('<time datetime="{0}" title="{0}">{1}</time>').format(iso(at), relative(at, now))


def link_ids(text: str, url: Callable[..., Markup]) -> Markup:
    """Return a sentence with links for `job 7` and `batch 7`, and with its times marked."""

    def link(found: re.Match[str]) -> str:
        is_job = found[1].lower() == "job"
        address = url(f"/jobs/{found[2]}") if is_job else url("/batch", id=found[2])
        return f'<a href="{address}">{found[0]}</a>'

    marked = CLOCK.sub(r'<time class="clock">\g<0></time>', str(escape(visible(text))))
    return Markup(NAMED_ID.sub(link, marked))  # noqa: S704 (escaped before)


def show_lines(text: str | None) -> Markup:
    """Return a multiline text with all characters visible."""
    cut = (text or "")[:LONGEST_TEXT]
    shown = "\n".join(visible(line.expandtabs(4)) for line in cut.split("\n"))
    rest = len(text or "") - len(cut)
    return escape(f"{shown}\n… {rest:,} more characters" if rest > 0 else shown)


def show_json(value: Any) -> Markup:
    return show_lines(json.dumps(value, indent=2, ensure_ascii=False, default=str))


def _show(value: Any) -> Any:
    if value is None:
        return ""
    if isinstance(value, timedelta):
        return span(value)
    if isinstance(value, str) and not isinstance(value, Markup):
        return visible(value)
    return value
