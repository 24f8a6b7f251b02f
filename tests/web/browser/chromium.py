"""The browser of these tests: a Chromium of this machine, which Playwright drives.

The headless shell comes first. The full browser renders its window in software, and when several
run at once, a click or a key press may take minutes to have an effect.
"""

import os
import shutil

NAMES = ("chromium-headless-shell", "chromium", "chromium-browser", "google-chrome")
PATH, MUST = "INTURN_TEST_CHROMIUM", "INTURN_TEST_BROWSER"
MISSING = (
    "There is no Chromium, so the tests of the dashboard in a browser are left out. "
    f"Get it with `apt-get install chromium-headless-shell`, or name one in {PATH}."
)


def find_chromium() -> str | None:
    """Return the path of the browser."""
    named = os.environ.get(PATH)
    found = [path for name in ([named] if named else NAMES) if (path := shutil.which(name))]
    return found[0] if found else None
