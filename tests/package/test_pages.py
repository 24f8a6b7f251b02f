"""The pages of docs/ hang together: the map has all of them, links lead somewhere, blocks are run."""

import importlib
import json
import re
import shlex
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from types import SimpleNamespace

import click
import psycopg
import pytest
import yaml
from click import exceptions

from docs import llms
from inturn import sql
from inturn.cli import COMMANDS
from tests import commands_page, reference_contents
from tests.deploy.command_line import parse

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"
PAGES = sorted([*DOCS.glob("*.md"), *DOCS.glob("api/*.md")])
INDEX = DOCS / "index.md"
DECISIONS = sorted((DOCS / "decisions").glob("*.md"))
README = ROOT / "README.md"
WITH_LINKS = [
    README,
    ROOT / "CHANGELOG.md",
    ROOT / "CONTRIBUTING.md",
    ROOT / "sql/functions/README.md",
    ROOT / "tests/race/combinations.md",
    *PAGES,
    *DECISIONS,
]
SITE = "https://github.com/inturn/inturn/blob/main/"
FENCE = re.compile(r"^ *```(\w*)\n(.*?)^ *```", re.MULTILINE | re.DOTALL)
# Where the blocks of a page are run, except for commands, JSON, YAML and drawings: see below.
RUN_BY = {
    **{f"api/{name}": "package/test_api_reference.py" for name in reference_contents.PAGES},
    "bulk": "cli/test_bulk.py",
    "cells": "cells/test_page.py",
    "dashboard": "web/test_page.py",
    "deploy": "deploy/test_pages.py",
    "exactly-once": "package/test_api_reference.py",
    "fair-shares": "package/test_flow_page.py",
    "flow": "package/test_flow_page.py",
    "high-availability": "race/test_fences_after_failover.py",
    "index": "package/test_flow_page.py",
    "integrations": "django/test_guide.py",
    "limits": "package/test_flow_page.py",
    "locks": "package/test_api_reference.py",
    "logging": "package/test_api_reference.py",
    "metrics": "package/test_metrics_page.py",
    "moving": "package/test_moving.py",
    "moving-from-celery": "package/test_moving_from_celery.py",
    "outages": "package/test_api_reference.py",
    "periodic": "package/test_api_reference.py",
    "production": "package/test_api_reference.py",
    "progress": "package/test_flow_page.py",
    "sentry": "contrib/test_sentry.py",
    "several-locks": "package/test_flow_page.py",
    "sql": "sql/test_defer.py",
    "testing": "testing/test_plugin.py",
    "tracing": "tracing/test_page.py",
    "tuning": "package/test_api_reference.py",
    "tutorial": "package/test_tutorial.py",
    "values": "package/test_api_reference.py",
    "verify": "package/test_api_reference.py",
}
RUN_BY_NODE = {"sql": "privileges/test_contract.py"}
LEFT_OUT = (click.BadParameter, exceptions.BadOptionUsage, exceptions.NoArgsIsHelpError)


def read(page: Path) -> str:
    return page.read_text(encoding="utf-8")


def name_of(page: Path) -> str:
    return page.relative_to(DOCS).with_suffix("").as_posix()


def without_blocks(text: str) -> str:
    return FENCE.sub("", text)


def anchors(page: Path) -> set[str]:
    """Return the anchors of a page, as GitHub and Sphinx make them of its headings."""
    found: set[str] = set()
    for heading in re.findall(r"^#{1,4} (.+)$", without_blocks(read(page)), re.MULTILINE):
        anchor = re.sub(r"[^\w\- ]", "", heading.strip().lower()).replace(" ", "-")
        number = next(n for n in range(99) if (f"{anchor}-{n}" if n else anchor) not in found)
        found.add(f"{anchor}-{number}" if number else anchor)
    return found


def links(page: Path) -> list[str]:
    text = without_blocks(read(page))
    return re.findall(r"\]\(([^)\s]+)\)", text) + re.findall(r"^\[[^]]+\]: (\S+)$", text, re.M)


@pytest.mark.parametrize("page", WITH_LINKS, ids=lambda page: str(page.relative_to(ROOT)))
def test_every_link_of_a_page_leads_to_a_file_and_a_heading(page: Path) -> None:
    for link in links(page):
        path, _, anchor = link.partition("#")
        if path.startswith(SITE):
            target = ROOT / path.removeprefix(SITE)
        elif ":" in path:
            continue  # on another site
        else:
            target = (page.parent / path).resolve() if path else page
        assert target.exists(), f"{page.name} points to {link}"
        if anchor:
            assert anchor in anchors(target), f"{page.name} points to {link}"


def test_the_map_has_every_page_once() -> None:
    listed = re.findall(r"^\* \[[^]]+\]\((\w[\w/-]*\.md)\)", read(INDEX), re.MULTILINE)
    pages = [page.name for page in DOCS.glob("*.md") if page != INDEX]
    assert sorted(listed) == sorted([*pages, "decisions/index.md"])


def test_the_map_is_in_the_order_of_the_months_of_a_user() -> None:
    headings = re.findall(r"^## (.+)$", read(INDEX), re.MULTILINE)
    assert headings == [
        "Start",
        "Write tasks",
        "Order and flow",
        "Test",
        "Deploy",
        "Watch",
        "Repair",
        "Scale",
        "Move here",
        llms.CONTRIBUTORS,
    ]


def test_the_bar_has_the_chapters_of_the_map_and_the_titles_of_the_pages() -> None:
    """An entry without a title of its own shows that of its page."""
    source = [read(INDEX)]
    importlib.import_module("docs.conf").translate(SimpleNamespace(srcdir=DOCS), "index", source)
    bar = re.findall(
        r"^```{toctree}\n:hidden:\n:caption: (.+)\n\n((?:[\w/-]+\n)+)```$", source[0], re.M
    )
    chapters = llms.split_chapters(read(INDEX))
    assert [(chapter, pages.split()) for chapter, pages in bar] == [
        (chapter, [entry.page for entry in llms.list_entries(text)])
        for chapter, text in chapters.items()
    ]


def test_the_site_has_the_mark_and_the_colours_of_the_dashboard() -> None:
    conf = importlib.import_module("docs.conf")
    style = read(ROOT / "queue/inturn/web/assets/style.css")
    assert conf.html_context["mark"].startswith("<svg ")
    assert "{{ mark }}" in read(DOCS / "templates/sidebar/brand.html")
    for name, colour in conf.COLOURS.items():
        pair = [
            conf.html_theme_options[f"{theme}_css_variables"][name] for theme in ("light", "dark")
        ]
        assert f"--{colour}: light-dark({', '.join(pair)});" in style


def test_a_page_with_a_folder_has_the_pages_of_the_folder_in_the_bar() -> None:
    source = [read(DOCS / "api.md")]
    importlib.import_module("docs.conf").translate(SimpleNamespace(srcdir=DOCS), "api", source)
    pages = source[0].rpartition("```{toctree}\n:hidden:\n\n")[2].partition("```")[0].split()
    assert sorted(pages) == sorted(f"api/{file.stem}" for file in DOCS.glob("api/*.md"))


def test_the_map_says_the_title_and_the_subject_of_every_page() -> None:
    entries = [entry for chapter in llms.list_pages(DOCS).values() for entry in chapter]
    pages = [name_of(page) for page in PAGES if page != INDEX]
    assert sorted(entry.page for entry in entries) == sorted([*pages, "decisions/index"])
    for entry in entries:
        assert llms.title_of(read(DOCS / f"{entry.page}.md")) == entry.title
        assert re.fullmatch(r"(?:[^.]|\.(?=\w))+\.", llms.without_links(entry.about)), entry


def is_reference(page: str) -> bool:
    """Return True for a page that is made from the code, where people look things up."""
    return page.startswith(("api/", "commands")) or page == "views"


@pytest.mark.parametrize(
    "page",
    [page for page in sorted(DOCS.rglob("*.md")) if not is_reference(name_of(page))],
    ids=name_of,
)
def test_a_page_is_short_enough_to_be_read_as_a_whole(page: Path) -> None:
    assert len(read(page).split()) <= 2500


def test_the_pages_that_users_read_have_at_most_38_500_words() -> None:
    """All words between spaces count, also those of tables and blocks."""
    chapters = llms.list_pages(DOCS)
    del chapters[llms.CONTRIBUTORS]
    pages = ["index", *(entry.page for entries in chapters.values() for entry in entries)]
    words = {
        page: len(read(DOCS / f"{page}.md").split()) for page in pages if not is_reference(page)
    }
    of_cells = {page for page in words if "cells" in page.split("-")}  # many servers came later
    assert sum(words.pop(page) for page in of_cells) <= 3_500
    assert sum(words.values()) <= 38_500


def test_the_index_of_the_decisions_has_each_of_their_pages_once() -> None:
    index = read(DOCS / "decisions/index.md")
    listed = re.findall(r"^\* \[[^]]+\]\((\w[\w-]*\.md)\)", index, re.MULTILINE)
    assert sorted(listed) == sorted(page.name for page in DECISIONS if page.name != "index.md")
    assert "docs/decisions/index.md" in read(ROOT / "CONTRIBUTING.md")


@pytest.mark.parametrize("page", DECISIONS, ids=lambda page: page.stem)
def test_a_decision_has_at_most_ten_lines(page: Path) -> None:
    for paragraph in re.split(r"\n\n(?=\*\*)", read(page))[1:]:
        text = re.split(r"\n\n(?=#)", paragraph.rstrip())[0]
        assert text.count("\n") < 10, f"{page.name}: {text[:80]}"


def test_the_readme_leads_to_the_map() -> None:
    assert "docs/index.md" in read(README)


def test_the_readme_is_short_and_shows_how_to_begin() -> None:
    text = read(README)
    assert text.startswith("# inturn\n")
    assert text.count("\n") < 150
    assert re.search(r"^make demo .*\nmake test ", text, re.MULTILINE)
    (mark,) = re.findall(r'<img [^>]*alt="[^"]+" src="([^"]+\.svg)">', text)
    assert (ROOT / mark.removeprefix("https://github.com/inturn/inturn/raw/main/")).is_file()


def test_each_command_is_on_one_page() -> None:
    assert sorted(name for _, names in commands_page.PAGES.values() for name in names) == COMMANDS


@pytest.mark.parametrize("page", commands_page.PAGES)
def test_a_page_of_commands_is_up_to_date(page: str) -> None:
    assert read(DOCS / f"{page}.md") == commands_page.write_page(page), "run `make docs`"


@pytest.mark.parametrize("page", commands_page.PAGES)
def test_a_page_of_commands_names_every_option_of_each_command(page: str) -> None:
    head, *chapters = read(DOCS / f"{page}.md").split("\n## queue ")
    head += read(DOCS / f"{commands_page.COMMON_PAGE}.md").partition("\n## queue ")[0]
    told = {chapter.partition("\n")[0]: chapter for chapter in chapters}
    for words, command in commands_page.find_commands(page):
        chapter = told[words.removeprefix("queue ")]
        also = chapter.rpartition("\nAlso: ")[2]
        for group, options in commands_page.GROUPS.items():
            also = also.replace(f"*{group}*", ", ".join(f"`{name}`" for name in options))
        for group in commands_page.FILTERS:
            _, shown, filters = head.partition(f"*{group.capitalize()}*")
            if shown:
                also = also.replace(f"*{group}*", filters.split("\n\n")[1].replace(" ", "` `"))
        for option in commands_page.find_options(command):
            name = max(option.opts, key=len)
            is_shared = f"`{name}`" in also and re.search(rf"^\* .*{name}\b", head, re.M)
            assert is_shared or re.search(rf"^\* .*{name}\b", chapter, re.M), f"{words} {name}"


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_the_blocks_of_a_page_are_run_by_a_test(page: Path) -> None:
    """Commands and data are read below. Everything in Python, SQL and JavaScript must be run."""
    languages = {language for language, _ in FENCE.findall(read(page))}
    name = name_of(page)
    for runs, here in ((RUN_BY, {"python", "sql"}), (RUN_BY_NODE, {"javascript"})):
        if languages & here:
            assert name.partition("/")[0] in read(ROOT / "tests" / runs[name])
    known = {
        "",
        "console",
        "dockerfile",
        "ini",
        "javascript",
        "json",
        "python",
        "sh",
        "sql",
        "text",
        "toml",
        "yaml",
    }
    assert languages <= known


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_the_data_on_a_page_can_be_read(page: Path) -> None:
    for language, text in FENCE.findall(read(page)):
        if language == "json":
            json.loads(text)
        elif language == "yaml":
            assert yaml.safe_load(text)


def find_commands(page: Path) -> Iterator[tuple[str, bool]]:
    """Yield every command of ours on a page, and whether it is in a block, so that it is whole."""
    text = read(page)
    for language, block in FENCE.findall(text):
        if language in ("", "sh", "console"):
            lines = re.findall(
                r"^(?:\$ )?(queue .*?)(?:  +.*| [#>].*)?$", block.replace("\\\n", " "), re.M
            )
            yield from ((command, True) for line in lines for command in re.split("; | && ", line))
    for span in re.findall(r"`(queue [^`]+)`", without_blocks(text)):
        yield " ".join(span.split()), False


@pytest.mark.parametrize(
    "page", [README, *PAGES, *DECISIONS], ids=lambda page: str(page.relative_to(ROOT))
)
def test_a_command_on_a_page_is_one_of_ours(page: Path) -> None:
    for command, is_whole in find_commands(page):
        if not re.search(r"…|\||\[", command):
            # The text may leave arguments out, but invents no command and no option.
            left_out = () if is_whole else LEFT_OUT
            with suppress(exceptions.Exit, *left_out):  # --help and --version exit
                words = shlex.split(command)[1:]
                name, _ = parse(words, {})
                assert set(name.split()) <= set(words), command


def test_the_guide_to_a_stuck_lane_can_be_read_on_a_phone() -> None:
    page = read(DOCS / "stuck-lane.md")
    assert "\n|" not in page, "a table is scrolled sideways"
    assert FENCE.findall(page) == [], "a block is scrolled sideways"


def test_the_guide_to_a_stuck_lane_quotes_what_the_tools_say() -> None:
    rows = re.findall(r"^### (.+)$", read(DOCS / "stuck-lane.md"), re.MULTILINE)
    said = read(ROOT / "queue/inturn/database/conditions.py")
    said += "".join(read(file) for file in (ROOT / "sql/functions").rglob("explain*.sql"))
    quoted = [phrase for row in rows for phrase in re.findall('"(.+?)"', row)]
    assert len(quoted) > 5
    for phrase in quoted:
        assert phrase in said, phrase
    named = {state for row in rows for state in re.findall("`([a-z]+)`", row)}
    states = read(DOCS / "watching.md").partition("| state | the lane |\n")[2].partition("\n\n")[0]
    assert named == {*re.findall(r"^\| `(\w+)` \|", states, re.MULTILINE)}


def test_each_alert_leads_to_the_entry_of_its_remedy() -> None:
    page, rules = DOCS / "stuck-lane.md", read(ROOT / "deploy/prometheus/alerts.yml")
    led = dict(re.findall(r"- alert: (\w+)\n(?:.+\n)+? +runbook_url: (\S+)\n", rules))
    assert len(led) == rules.count("- alert: ")
    rows = dict(re.findall(r"^\* `(Inturn\w+)`: (.+)$", read(page), re.MULTILINE))
    for alert, address in led.items():
        assert address.startswith(f"{SITE}docs/stuck-lane.md#")
        anchor = address.partition("#")[2]
        assert anchor in anchors(page), alert
        # A row that is only the name of an entry, such as `halted` or "queue paused".
        if name := re.fullmatch(r'[`"]([a-z ]+)[`"]\.', rows[alert]):
            assert anchor.startswith(name[1].replace(" ", "-")) or name[1].startswith("fail ")


def test_the_pages_agree_on_how_many_functions_and_views_there_are() -> None:
    said = [
        re.search(r"(\d+) (?:scripts|SQL functions and views)", read(DOCS / f"{name}.md"))
        for name in ("comparison", "upgrade")
    ]
    numbers = [int(found[1]) for found in said if found]
    assert numbers == pytest.approx([len(list(sql.code()))] * 2, rel=0.1)


@pytest.mark.landing
@pytest.mark.parametrize(
    "page", [README, DOCS / "outages.md", DOCS / "tuning.md"], ids=lambda page: page.stem
)
def test_the_sql_of_a_page_runs(dsn: str, page: Path) -> None:
    statements = [text for language, text in FENCE.findall(read(page)) if language == "sql"]
    assert statements
    with psycopg.connect(dsn) as connection:
        connection.execute("CREATE ROLE app")
        for statement in statements:
            connection.execute(statement.encode())
        connection.rollback()  # the role would belong to the whole server
