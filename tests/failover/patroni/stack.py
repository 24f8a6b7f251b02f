"""Three nodes under Patroni with etcd, HAProxy and PgBouncer, in one folder under one command."""

import contextlib
import json
import os
import secrets
import shutil
import signal
import subprocess
import tempfile
import urllib.request
from contextlib import ExitStack
from pathlib import Path
from typing import Any, Self

import psutil
import psycopg

from inturn.embedded.binaries import server_account
from inturn.schema.migrate import migrate
from tests.failover.cluster import wait_until
from tests.failover.patroni import configuration
from tests.failover.patroni.configuration import DATABASE, Member, free_ports

PACKAGES = {
    "patroni": "patroni",
    "etcd": "etcd-server",
    "haproxy": "haproxy",
    "pgbouncer": "pgbouncer",
}
PATH = os.pathsep.join([os.environ.get("PATH", ""), "/usr/sbin", "/usr/bin"])

# Ends everything when its standard input ends, so also if the command is killed.
GUARD = """
folder=$1
while read -r line; do :; done
for pid in "$folder"/*.pid; do
    read -r number <"$pid" && kill -KILL "$number"
done 2>/dev/null
for process in /proc/[0-9]*; do  # the servers are not our children, but run in their data folders
    case $(readlink "$process/cwd") in "$folder"/*) kill -KILL "${process#/proc/}" ;; esac
done 2>/dev/null
sleep 1
rm -rf "$folder"
"""


class Missing(Exception):
    """Raise if programs are missing, and name their Debian packages."""


def find_programs() -> dict[str, str]:
    found = {name: shutil.which(name, path=PATH) for name in PACKAGES}
    missing = [package for name, package in PACKAGES.items() if found[name] is None]
    if not _server_binaries():
        missing.append("postgresql")
    if (
        "patroni" not in missing
        and subprocess.run(
            ["/usr/bin/python3", "-c", "import etcd"], stderr=subprocess.DEVNULL, check=False
        ).returncode
    ):
        missing.append("python3-etcd")
    if missing:
        raise Missing(
            f"`make patroni` needs Debian packages that are not there: apt-get install {' '.join(missing)}"
        )
    return {name: path for name, path in found.items() if path}


def _server_binaries() -> list[Path]:
    return sorted(Path("/usr/lib/postgresql").glob("*/bin/postgres"))


class Stack:
    def __init__(self, *, synchronous: bool) -> None:
        self._programs = find_programs()
        self._binaries = _server_binaries()[-1].parent
        self._account = server_account()
        self._synchronous = synchronous
        self._password = secrets.token_hex()
        self._launched: list[subprocess.Popen[bytes]] = []
        self._ends = ExitStack()

    def __enter__(self) -> Self:
        with ExitStack() as ends:
            self.folder = Path(tempfile.mkdtemp(prefix="inturn-patroni-"))
            ends.callback(self._end, self._launch_guard())
            self._account.take(self.folder)
            self._etcd, peer, self._haproxy, self._pgbouncer, *ports = free_ports(10)
            self.members = [
                Member(name, self.folder / name, ports[2 * n], ports[2 * n + 1])
                for n, name in enumerate("abc")
            ]
            urls = [f"http://127.0.0.1:{port}" for port in (self._etcd, peer)]
            self._launch(
                "etcd", "etcd", "--data-dir", self.folder / "etcd", "--unsafe-no-fsync",
                "--enable-v2",
                "--listen-client-urls", urls[0], "--advertise-client-urls", urls[0],
                "--listen-peer-urls", urls[1],
                "--initial-advertise-peer-urls", urls[1], "--initial-cluster", f"default={urls[1]}",
            )  # fmt: skip
            for member in self.members:
                member.home.mkdir(mode=0o700)
                self._account.take(member.home)
                self.start(member)
            self._start_proxies()
            wait_until(lambda: self.is_whole(), "three nodes")
            with psycopg.connect(
                self._address(self._leader().port, "postgres"), autocommit=True
            ) as connection:
                connection.execute(f"CREATE DATABASE {DATABASE}".encode())
            migrate(self.multi_host)
            self._ends = ends.pop_all()
        return self

    def __exit__(self, *_: object) -> None:
        self._ends.close()

    # -- ways to the database

    @property
    def multi_host(self) -> str:
        hosts = ",".join("127.0.0.1" for _ in self.members)
        ports = ",".join(str(member.port) for member in self.members)
        return f"{self._address(0, DATABASE)} host={hosts} port={ports} target_session_attrs=read-write"

    @property
    def through_haproxy(self) -> str:
        return self._address(self._haproxy, DATABASE)

    @property
    def through_pgbouncer(self) -> str:
        """PgBouncer in transaction mode, and behind it HAProxy."""
        return self._address(self._pgbouncer, DATABASE)

    def _address(self, port: int, database: str) -> str:
        where = f"host=127.0.0.1 port={port} " if port else ""
        return f"{where}user=postgres password={self._password} dbname={database} connect_timeout=3"

    # -- nodes

    def start(self, member: Member) -> None:
        text = configuration.patroni(
            member, self._etcd, self._binaries, self._password, synchronous=self._synchronous
        )
        self._launch(
            f"patroni-{member.name}", "patroni", self._written(f"{member.name}.json", text)
        )

    def leader(self) -> Member | None:
        """Return the leader on which the nodes agree, or None."""
        for member in self.members:
            with contextlib.suppress(OSError, ValueError):
                for each in self._ask(member, "cluster")["members"]:
                    if each["role"] == "leader" and each["state"] == "running":
                        return next(m for m in self.members if m.name == each["name"])
        return None

    def _leader(self) -> Member:
        found = self.leader()
        assert found is not None, "there is no leader"
        return found

    def is_whole(self) -> bool:
        """Wait for a leader and two streaming standbys, one of them synchronous if required."""
        leader = self.leader()
        if leader is None:
            return False
        with contextlib.suppress(psycopg.OperationalError):
            with psycopg.connect(self._address(leader.port, "postgres")) as connection:
                rows = connection.execute(
                    "SELECT sync_state FROM pg_stat_replication WHERE state = 'streaming' "
                    "AND application_name IN ('a','b','c')"
                ).fetchall()
            return len(rows) == 2 and (not self._synchronous or ("sync",) in rows)
        return False

    def switch_over(self) -> Member:
        """Switch over in order, as before an upgrade. Return the old leader."""
        leader = self._leader()
        body = json.dumps({"leader": leader.name}).encode()
        request = urllib.request.Request(
            f"http://127.0.0.1:{leader.rest}/switchover", body, method="POST"
        )
        with urllib.request.urlopen(request, timeout=60):  # noqa: S310 (loopback)
            return leader

    def kill(self) -> Member:
        """Kill all processes of the leader at once."""
        leader = self._leader()
        for process in self._processes(leader):
            with contextlib.suppress(psutil.NoSuchProcess):
                process.kill()
        return leader

    def pause(self) -> Member:
        """Stop all processes of the leader, as when a machine is paused. Connections stay open."""
        leader = self._leader()
        for process in self._processes(leader):
            process.send_signal(signal.SIGSTOP)
        return leader

    def resume(self, member: Member) -> None:
        for process in self._processes(member):
            process.send_signal(signal.SIGCONT)

    def _processes(self, member: Member) -> list[psutil.Process]:
        pids = [self.folder / f"patroni-{member.name}.pid", member.data / "postmaster.pid"]
        roots = [psutil.Process(int(pid.read_text().split()[0])) for pid in pids]
        return [process for root in roots for process in (root, *root.children(recursive=True))]

    def _ask(self, member: Member, what: str) -> Any:
        with urllib.request.urlopen(f"http://127.0.0.1:{member.rest}/{what}", timeout=1) as reply:
            return json.load(reply)

    # -- processes

    def _start_proxies(self) -> None:
        users = self._written("users.txt", f'"postgres" "{self._password}"\n')
        self._launch(
            "haproxy", "haproxy", "-db", "-f",
            self._written("haproxy.cfg", configuration.haproxy(self._haproxy, self.members)),
        )  # fmt: skip
        self._launch(
            "pgbouncer", "pgbouncer",
            self._written("pgbouncer.ini",
                          configuration.pgbouncer(self._pgbouncer, self._haproxy, users)),
        )  # fmt: skip

    def _written(self, name: str, text: str) -> Path:
        path = self.folder / name
        path.touch(mode=0o600)
        path.write_text(text)
        self._account.take(path)
        return path

    def _launch(self, name: str, program: str, *arguments: str | Path) -> None:
        with (self.folder / f"{name}.log").open("ab") as log:
            process = self._account.launch([self._programs[program], *arguments], log)
        (self.folder / f"{name}.pid").write_text(f"{process.pid}\n")
        self._launched.append(process)

    def _launch_guard(self) -> subprocess.Popen[bytes]:
        return subprocess.Popen(
            ["/bin/sh", "-c", GUARD, "guard", self.folder],
            stdin=subprocess.PIPE,
            bufsize=0,
            start_new_session=True,  # a signal may go to our whole group
        )

    def _end(self, guard: subprocess.Popen[bytes]) -> None:
        assert guard.stdin is not None
        guard.stdin.close()
        guard.wait()
        for process in self._launched:
            process.wait()
            assert process.stdin is not None
            process.stdin.close()
