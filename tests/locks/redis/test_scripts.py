"""The Lua scripts of the locks in Redis."""

import re

from inturn.locks.redis.scripts import SCRIPTS


def test_every_script_names_its_keys_and_touches_no_other() -> None:
    scripts = sorted(SCRIPTS.glob("*.lua"))
    assert scripts
    for script in scripts:
        text = script.read_text()
        assert text.startswith("-- "), script.name
        if script.name != "held.lua":
            assert "KEYS" in text.split("\n\n")[0], script.name
        assert not re.search(r"KEYS\[\d\] *\.\.|\.\. *KEYS", text), (
            f"{script.name}: a key must not be put together"
        )
