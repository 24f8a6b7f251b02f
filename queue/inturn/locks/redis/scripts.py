"""The Lua scripts of the locks in Redis, and the names of their keys.

Every script declares all its keys. The keys of one lock share a hash slot, as `prefix:{name}…`, so
the scripts also run on a Redis Cluster.
"""

import hashlib
from collections.abc import Sequence
from functools import cache
from math import ceil
from pathlib import Path
from typing import Any, NamedTuple

SCRIPTS = Path(__file__).parent / "lua"
MARK_MS = 30_000  # how long a release can be repeated: longer than any client retries


class Script(NamedTuple):
    """The text of a script, and the hash by which the server knows it."""

    text: str
    sha: bytes


class Call(NamedTuple):
    """A request to run a script."""

    script: Script
    keys: Sequence[str | bytes]
    arguments: Sequence[str | int | bytes] = ()
    is_known: bool = True  # the server has seen the script, and needs only its hash

    @property
    def words(self) -> tuple[Any, ...]:
        call = ("EVALSHA", self.script.sha) if self.is_known else ("EVAL", self.script.text)
        return (*call, len(self.keys), *self.keys, *self.arguments)


@cache
def script(name: str, *preludes: str) -> Script:
    """Return a script from the folder `lua`, after the preludes that it needs."""
    files = [SCRIPTS / f"{part}.lua" for part in (*preludes, name)]
    text = "\n".join(file.read_text(encoding="utf-8") for file in files)
    sha = hashlib.sha1(text.encode(), usedforsecurity=False).hexdigest()
    return Script(text, sha.encode())


class Keys:
    """The keys of one lock. `lock` is also the name of its channel.

    They are bytes, so that clients need not encode them in each call.
    """

    def __init__(self, prefix: str, name: str) -> None:
        if not name or name.startswith("}") or len(name) > 1024:
            raise ValueError(
                f"name={name[:50]!r}: use 1 to 1,024 characters that do not start with }}"
            )
        self.lock = check_utf8("name", f"{prefix}:{{{name}}}").encode()
        self.fence = self.of("fence")

    def of(self, part: str) -> bytes:
        return self.lock + b":" + part.encode()

    def mark(self, lock_id: str) -> bytes:
        return self.lock + b":released:" + lock_id.encode()


def check_utf8(what: str, text: str) -> str:
    """Return the text, or raise ValueError if it cannot be encoded as UTF-8."""
    try:
        text.encode()
    except UnicodeEncodeError:
        raise ValueError(f"{what}: {text[:50]!r} cannot be written as UTF-8") from None
    return text


def check_seed(seed: int) -> str:
    """Return the seed of a fence as text, or raise ValueError if scripts cannot count from it."""
    if not 0 <= int(seed) < 2**53:
        raise ValueError(f"the fence's seed is {seed}: it must be a number from 0 to 2^53 - 1")
    return str(int(seed))


def beside(key: str | bytes, suffix: str) -> bytes:
    """Return a key in the same slot as another one, whatever its name."""
    key = key.encode() if isinstance(key, str) else bytes(key)
    start = key.find(b"{")
    tagged = start >= 0 and key.find(b"}", start + 2) > 0
    return (key if tagged else b"{" + key + b"}") + suffix.encode()


def milliseconds(seconds: float) -> int:
    """Convert to milliseconds, rounded up: 0.4 ms is short, but not zero."""
    return ceil(seconds * 1000)
