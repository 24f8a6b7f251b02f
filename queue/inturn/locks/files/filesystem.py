"""Which file systems keep `flock` for all processes of this machine, by what the kernel says is mounted."""

import os
from pathlib import Path

from inturn.locks.errors import LockBackendError

MOUNTS = Path("/proc/self/mountinfo")
# fmt: off
KNOWN = frozenset([
    "apfs", "bcachefs", "btrfs", "exfat", "ext2", "ext3", "ext4", "f2fs", "hfs", "jfs", "overlay", "ramfs",
    "reiserfs", "tmpfs", "ufs", "vfat", "xfs", "zfs",
])
# fmt: on


def refuse_unknown(path: Path) -> None:
    kind = filesystem_of(path)
    if kind is not None and kind not in KNOWN:
        raise LockBackendError(
            f"{path} lies on a file system of kind {kind}, whose locks may not hold between processes or may hang. "
            "Choose a local path, or say any_filesystem=True"
        )


def filesystem_of(path: Path) -> str | None:
    """None where the kernel does not tell."""
    try:
        lines = MOUNTS.read_text(encoding="utf-8", errors="replace").splitlines()
    except OSError:
        return None
    where = os.path.realpath(path)
    best, kind = "", None
    for line in lines:
        before, _, after = line.partition(" - ")
        mount = before.split(" ")[4].replace("\\040", " ")
        # The longest mount point above the path, and of equal ones the last, which lies over the others.
        if (where == mount or where.startswith(mount.rstrip("/") + "/")) and len(mount) >= len(best):
            best, kind = mount, after.split(" ")[0]
    return kind
