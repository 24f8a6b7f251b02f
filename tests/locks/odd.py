"""What may be in the place of a lock: paths that are not files, and keys of other types."""

import os
import stat
from pathlib import Path
from typing import Any

import redis


def make_odd_path(tmp_path: Path, kind: str) -> Path:
    """Return a path that is not a regular file, or cannot be one."""
    path = tmp_path / "odd"
    if kind == "folder":
        path.mkdir()
    elif kind == "fifo":
        os.mkfifo(path)
    elif kind == "link":
        (tmp_path / "target").write_text("precious")
        path.symlink_to(tmp_path / "target")
    elif kind == "dangling link":
        path.symlink_to(tmp_path / "nowhere")
    elif kind == "long":
        return tmp_path / ("x" * 300)
    else:
        os.mknod(path, 0o600 | stat.S_IFSOCK)
    return path


def is_untouched(path: Path) -> bool:
    """Return True if nothing was written through the link at this path."""
    target = path.with_name("target")
    return not target.exists() or target.read_text() == "precious"


def make_of_type(client: "redis.Redis", kind: str, key: str) -> None:
    """Store something that is not a string, and so not a lock."""
    client.delete(key)
    make: Any = {
        "list": lambda: client.rpush(key, "x"),
        "hash": lambda: client.hset(key, "x", "y"),
        "set": lambda: client.sadd(key, "x"),
        "zset": lambda: client.zadd(key, {"x": 1}),
        "stream": lambda: client.xadd(key, {"x": "y"}),
    }
    make[kind]()
