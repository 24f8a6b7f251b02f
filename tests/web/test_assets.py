"""What is vendored is what its package has published, with its licence."""

import hashlib
import json
import re
from importlib.resources import files

VENDOR = files("inturn.web") / "assets" / "vendor"


def test_each_vendored_file_is_in_the_manifest_with_its_hash_and_licence() -> None:
    manifest = json.loads((VENDOR / "assets.json").read_text())
    named = {"assets.json"}
    for each in manifest:
        content = (VENDOR / each["file"]).read_bytes()
        assert hashlib.sha256(content).hexdigest() == each["sha256"], each["file"]
        assert "Permission to use, copy" in (VENDOR / each["licence_file"]).read_text()
        assert each["licence"] == "0BSD"
        assert each["version"]
        named |= {each["file"], each["licence_file"]}
    assert {each.name for each in VENDOR.iterdir()} == named


def test_the_icon_is_the_mark_on_a_tile_of_the_accent_colour() -> None:
    web = files("inturn.web")
    shapes = re.compile(r' (?:d|cx|cy|r|stroke-width|opacity)="[^"]+"')
    mark, icon = ((web / name).read_text() for name in ("templates/mark.svg", "assets/icon.svg"))
    _, _, drawn = icon.partition("<g ")
    assert shapes.findall(mark) == shapes.findall(drawn)
    [accent] = re.findall(r"--accent: light-dark\((#\w+), ", (web / "assets/style.css").read_text())
    assert f'fill="{accent}"' in icon


def test_templates_have_no_inline_script_or_style() -> None:
    for template in (files("inturn.web") / "templates").iterdir():
        text = template.read_text()
        assert "style=" not in text, template.name
        assert "<style" not in text, template.name
        assert "javascript:" not in text, template.name
        assert text.count("<script") == text.count("<script src="), template.name
        assert " on" + "click" not in text, template.name
        assert "|safe" not in text.replace(" ", ""), template.name
