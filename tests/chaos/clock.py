"""The clock of a server's processes, which a preloaded library moves. Others keep the real one.

The library is libfaketime (Debian: faketime), if it is installed.
"""

import shutil
import tempfile
from pathlib import Path

LIBRARY = next(Path("/usr/lib").glob("*/faketime/libfaketime.so.1"), None)
MISSING = "The server's clock cannot be moved: there is no libfaketime. apt-get install faketime"
# With its speed: a process keeps the last one that it was told.
RIGHT = "+0 x1"


class Clock:
    def __init__(self) -> None:
        self._folder = Path(tempfile.mkdtemp(prefix="inturn-chaos-clock-"))
        self._folder.chmod(0o755)
        self.set(RIGHT)

    def set(self, time: str) -> None:
        """Set it relative to the real one: +3600 is an hour ahead. The server soon follows."""
        new = self._folder / "new"
        new.write_text(f"{time}\n")
        new.replace(self._folder / "time")

    def environment(self) -> dict[str, str]:
        return {
            "LD_PRELOAD": str(LIBRARY),
            "FAKETIME_TIMESTAMP_FILE": str(self._folder / "time"),
            "FAKETIME_CACHE_DURATION": "1",  # seconds until it reads the file again
            "FAKETIME_DONT_FAKE_MONOTONIC": "1",
            "NO_FAKE_STAT": "1",
        }

    def close(self) -> None:
        shutil.rmtree(self._folder, ignore_errors=True)
