"""The files that pages load, and the version in their addresses."""

import hashlib
from functools import cache
from pathlib import Path

FOLDER = Path(__file__).parent / "assets"


@cache
def get_version() -> str:
    """Return a text that changes with the contents of any of the files."""
    digest = hashlib.sha256()
    for file in sorted(FOLDER.rglob("*")):
        if file.is_file():
            digest.update(file.read_bytes())
    return digest.hexdigest()[:12]
