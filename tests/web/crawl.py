"""Find the pages of a dashboard by their links, so that a page that is added is tested too."""

import re
from collections import Counter
from html import unescape
from urllib.parse import parse_qsl, urlsplit

import httpx2
from starlette.routing import compile_path

from inturn.web.page import SECTIONS
from inturn.web.pages import PAGES
from tests.web.seed import LIMIT

LINK = re.compile(r"""<a\b[^>]*?\shref="([^"]*)\"""")
FORM = re.compile(r"""<form\b[^>]*?\smethod="get"[^>]*?>.*?</form>""", re.S)
FIELD = re.compile(r"""<(?:input|select)\b[^>]*?\sname="([^"]*)\"""")


def crawl(address: str, each: int = 1) -> dict[str, str]:
    """Return the pages that links lead to, by their path, with their text.

    Of each kind of page there are at most so many: jobs have one kind, whatever their number.
    """
    found: dict[str, str] = {}
    kinds: Counter[str] = Counter()
    with httpx2.Client(base_url=address, timeout=LIMIT) as client:
        waiting = [section.path for section in SECTIONS]
        while waiting:
            path = waiting.pop(0)
            kind = kind_of(path)
            if path in found or kinds[kind] >= each:
                continue
            if not is_page(path):
                continue
            kinds[kind] += 1
            answer = client.get(path)
            assert answer.status_code == 200, (path, answer.status_code, answer.text[:2000])
            found[path] = answer.text
            waiting += links_of(answer.text)
    return found


def links_of(text: str) -> list[str]:
    """Return the addresses of a page's links below the root."""
    links = [unescape(link) for link in LINK.findall(text)]
    return [link for link in links if link.startswith("/")]


def is_page(path: str) -> bool:
    """Return True if a page answers at this address."""
    return any(compile_path(page.path)[0].match(urlsplit(path).path) for page in PAGES)


def kind_of(path: str) -> str:
    """Return what an address has in common with others like it."""
    parts = urlsplit(path)
    names = ",".join(sorted({name for name, _ in parse_qsl(parts.query)}))
    return f"{re.sub(r'[0-9]+', '0', parts.path)}?{names}"


def fields_of(text: str) -> set[str]:
    """Return the names of the fields with which a page is filtered."""
    return {name for form in FORM.findall(text) for name in FIELD.findall(form)}
