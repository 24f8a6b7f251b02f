"""The browser of these tests: a Chromium of this machine, which Playwright drives."""

import os
import shutil

NAMES = ("chromium", "chromium-browser", "google-chrome")
PATH, MUST = "INTURN_TEST_CHROMIUM", "INTURN_TEST_BROWSER"
MISSING = (
    "There is no Chromium, so the tests of the dashboard in a browser are left out. "
    f"Get it with `apt-get install chromium`, or name one in {PATH}."
)


def find_chromium() -> str | None:
    """Return the path of the browser."""
    named = os.environ.get(PATH)
    found = [path for name in ([named] if named else NAMES) if (path := shutil.which(name))]
    return found[0] if found else None
