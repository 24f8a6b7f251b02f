"""Refuse file systems whose `flock` may not work between processes, such as network ones."""

import os
from pathlib import Path

from inturn.locks.errors import LockBackendError

MOUNTS = Path("/proc/self/mountinfo")
# fmt: off
KNOWN = frozenset([
    "apfs", "bcachefs", "btrfs", "exfat", "ext2", "ext3", "ext4", "f2fs", "hfs", "jfs", "overlay",
    "ramfs", "reiserfs", "tmpfs", "ufs", "vfat", "xfs", "zfs",
])
# fmt: on


def refuse_unknown_filesystem(path: Path) -> None:
    """Raise LockBackendError if the path is on a file system not known to be local."""
    kind = get_filesystem(path)
    if kind is not None and kind not in KNOWN:
        raise LockBackendError(
            f"{path} is on a file system of type {kind}, where locks may hang, or not work between "
            "processes. Choose a local path, or pass any_filesystem=True"
        )


def get_filesystem(path: Path) -> str | None:
    """Return the type of the file system, or None if the kernel does not report it."""
    try:
        lines = MOUNTS.read_text(encoding="utf-8", errors="replace").splitlines()
    except OSError:
        return None
    where = os.path.realpath(path)
    best, kind = "", None
    for line in lines:
        before, _, after = line.partition(" - ")
        mount = before.split(" ")[4].replace("\\040", " ")
        # The longest mount point above the path counts. Of equal ones, the last hides the others.
        is_above = where == mount or where.startswith(mount.rstrip("/") + "/")
        if is_above and len(mount) >= len(best):
            best, kind = mount, after.split(" ")[0]
    return kind
