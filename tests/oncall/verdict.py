"""What the dashboard says first, beside what `queue doctor` finds."""

import html
import re
from dataclasses import dataclass

from starlette.testclient import TestClient

from inturn import App
from inturn.doctor.checks import examine
from inturn.doctor.finding import Finding
from inturn.web import Access, create_app
from inturn.web.reading import Reading
from tests.waiting import wait_until

SECTION = re.compile(r'<section class="verdict (\w+)".*?</section>', re.DOTALL)
HEADLINE = re.compile(r'<p class="headline"[^>]*>(.*?)</p>')
TROUBLES = ("warn", "fail")


@dataclass(frozen=True)
class Verdict:
    """The first lines of the Overview. `more` has the other findings too."""

    state: str
    headline: str
    more: str


def read_overview(dsn: str) -> str:
    with (
        App(dsn).open() as app,
        TestClient(create_app(app, authorize=lambda _: Access.FULL)) as client,
    ):
        return str(client.get("/").text)


def read_first_page(dsn: str) -> str:
    """Return the words of the Overview before its panels, or of the page that says why there is none."""
    page = read_overview(dsn)
    section = SECTION.search(page)
    return _text_of(page if section is None else section[0])


def read_verdict(dsn: str) -> Verdict:
    section = SECTION.search(read_overview(dsn))
    assert section is not None
    headline = HEADLINE.search(section[0])
    assert headline is not None
    return Verdict(section[1], _text_of(headline[1]), _text_of(section[0]))


def _text_of(page: str) -> str:
    return html.unescape(re.sub("<[^>]*>", "", page))


def ask_doctor(dsn: str) -> dict[str, Finding]:
    """Return what is wrong, by check."""
    with App(dsn).open() as app:
        reading = Reading(app.connector)
        with reading.open() as reader:
            found = {each.check: each for each in examine(reader) if each.state in TROUBLES}
        reading.close()
    return found


def check_verdict(dsn: str, check: str) -> None:
    """Check that the verdict names what the doctor finds by this check, and says nothing calm.

    They look one after the other, and a worker may look at the lane in between.
    """
    seen: list[object] = []

    def agree() -> bool:
        doctor, verdict = ask_doctor(dsn), read_verdict(dsn)
        seen[:] = [doctor, verdict]
        return check in doctor and _names(verdict, doctor, doctor[check])

    wait_until(agree, explain=lambda: seen)


def _names(verdict: Verdict, doctor: dict[str, Finding], found: Finding) -> bool:
    details = {without_times(each.detail): each.state for each in doctor.values()}
    return (
        details.get(without_times(verdict.headline)) == verdict.state
        and TROUBLES.index(verdict.state) >= TROUBLES.index(found.state)
        and without_times(found.detail) in without_times(verdict.more)
    )


def without_times(text: str) -> str:
    """Return the text so that it is the same a minute later, at the beginning of a sentence or not."""
    return re.sub(r"\d+", "0", text).lower().removesuffix(".")
