"""The recording in the README: what its terminal understands, and what it shows."""

import re
from xml.etree import ElementTree

import pytest

from inturn.cli.demo import picture as drawing
from inturn.cli.demo.page import DemoPage
from tests.cli.recording import FILE, Screen, draw, take_frames

SPACE = "{http://www.w3.org/2000/svg}"


def read(screen: Screen) -> list[str]:
    return ["".join(char for char, _ in line) for line in screen.lines()]


def find_texts(picture: str) -> list[tuple[str, str]]:
    """Return each text of a picture, and the class of its group."""
    root = ElementTree.fromstring(picture)  # noqa: S314 (ours)
    found = [(each, "") for each in root.findall(f"{SPACE}text")]
    for group in root.findall(f"{SPACE}g"):
        found += [(each, group.get("class", "")) for each in group]
    return [("".join(each.itertext()), name) for each, name in found]


def test_a_screen_writes_over_what_it_has_shown() -> None:
    screen = Screen()
    screen.write("\x1b[?25lone\r\n\x1b[1;31mtwo\x1b[0m")
    assert screen.lines()[1] == (("t", "b r"), ("w", "b r"), ("o", "b r"))
    screen.write("\r\x1b[2K\x1b[1A\x1b[2Kthree\r\n")
    assert read(screen) == ["three", ""]


@pytest.mark.parametrize("text", ["\x1b[5B", "\x1b[4m", "\x1b]0;title\x07", "a\x1b[1J"])
def test_a_screen_refuses_what_it_does_not_know(text: str) -> None:
    with pytest.raises((ValueError, KeyError)):
        Screen().write(text)


def test_a_picture_without_motion_shows_the_last_frame() -> None:
    frames = take_frames(iter([(1.0, "<a>\r\n"), (2.0, "\x1b[1A\x1b[2Kb & c\r\n")]))
    assert [frame.at for frame in frames] == [0.0, 1.0, 2.0]
    picture = draw(frames)
    assert find_texts(picture) == [("$ queue demo", ""), ("<a>", "h"), ("b & c", "")]
    assert re.search(r"@keyframes \w+{0%{opacity:0}12.50%{opacity:1}25.00%{opacity:0}}", picture)
    before, _, moving = picture.partition("@media (prefers-reduced-motion:no-preference){")
    assert "animation" not in before
    assert moving.startswith("g{animation:8.0s step-end infinite}")


def test_frames_are_a_tenth_of_a_second_apart_and_the_last_is_whole() -> None:
    frames = take_frames(iter([(1.0, "a"), (1.05, "b"), (1.2, "c"), (1.22, "d")]))
    assert [frame.at for frame in frames] == [0.0, 1.0, 1.2]
    assert "".join(char for char, _ in frames[-1].lines[1]) == "abcd"


def test_the_recording_is_of_the_demo_as_it_is() -> None:
    picture = FILE.read_text(encoding="utf-8")
    assert len(picture.encode()) < 100_000
    assert not re.search(r"https?://(?!www\.w3\.org/2000/svg)|@import|url\(|<script", picture)
    shown = "\n".join(text for text, name in find_texts(picture) if name != "h")
    pages = [DemoPage(1, has_locks=False), DemoPage(2, has_locks=True)]
    for page in pages:
        page.rows = {row: list("abcdefghijklmnopqrstuvwxyz") for row in page.rows}
    pages[0].rows[1].reverse()
    said = [drawing.INTRODUCTION, drawing.conclusion(pages).rstrip()]
    for line in "\n".join(said).splitlines():
        assert line in shown, "run `make recording`"
    assert re.search(r"Worker [1-4] died in mid-letter$", shown, re.MULTILINE)
