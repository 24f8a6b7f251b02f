"""Each picture that a page shows is there, is small, and has a text for people who do not see it."""

import re
from pathlib import Path

from tests.web.screenshots import LARGEST

ROOT = Path(__file__).parents[2]
# The README stands on PyPI too, where relative addresses lead nowhere.
FROM_ELSEWHERE = "https://github.com/inturn/inturn/raw/main/"
START = {".png": b"\x89PNG", ".svg": b"<svg "}
IMAGE = re.compile(r"!\[([^\]]*)\]\(([^)]+)\)")


def test_each_picture_is_there_and_each_is_shown() -> None:
    shown = set()
    for page in (ROOT / "README.md", *(ROOT / "docs").rglob("*.md")):
        for text, target in IMAGE.findall(page.read_text(encoding="utf-8")):
            file = (page.parent / target.removeprefix(FROM_ELSEWHERE)).resolve()
            assert len(text) > 10, (page.name, target)
            assert file.is_file(), (page.name, target)
            assert file.read_bytes().startswith(START[file.suffix])
            assert file.stat().st_size <= LARGEST, target
            shown.add(file)
            dark = file.with_stem(f"{file.stem}-dark")
            if dark.exists():  # the site shows it in the dark
                assert dark.stat().st_size <= LARGEST, dark
                shown.add(dark)
    assert shown == set((ROOT / "docs" / "images").iterdir())
