"""The configuration of etcd, Patroni, HAProxy and PgBouncer. All listen on free loopback ports."""

import json
import socket
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

DATABASE = "queue"
TTL, LOOP_WAIT, RETRY_TIMEOUT = 20, 2, 3  # seconds: Patroni accepts no shorter ttl


@dataclass(frozen=True)
class Member:
    """One node: a Patroni and its PostgreSQL."""

    name: str
    home: Path
    port: int
    rest: int

    @property
    def data(self) -> Path:
        return self.home / "data"


def free_ports(count: int) -> list[int]:
    with ExitStack() as held:
        sockets = [held.enter_context(socket.socket()) for _ in range(count)]
        for each in sockets:
            each.bind(("127.0.0.1", 0))
        return [int(each.getsockname()[1]) for each in sockets]


def patroni(member: Member, etcd: int, binaries: Path, password: str, *, synchronous: bool) -> str:
    """Return JSON, which is also YAML."""
    account = {"username": "postgres", "password": password}
    return json.dumps({
        "scope": "inturn",
        "name": member.name,
        "restapi": {"listen": f"127.0.0.1:{member.rest}",
                    "connect_address": f"127.0.0.1:{member.rest}"},
        # Not etcd3: with it, Patroni before 3.0.3 lets a paused leader take the lock back from
        # its successor.
        "etcd": {"host": f"127.0.0.1:{etcd}"},
        "bootstrap": {
            "dcs": {
                "ttl": TTL,
                "loop_wait": LOOP_WAIT,
                "retry_timeout": RETRY_TIMEOUT,
                "synchronous_mode": synchronous,
                "postgresql": {
                    "use_pg_rewind": True,
                    "parameters": {"max_connections": 60, "shared_buffers": "32MB", "fsync": "off"},
                },
            },
            "initdb": [{"encoding": "UTF8"}, {"locale": "C"}, "data-checksums"],
        },
        "postgresql": {
            "listen": f"127.0.0.1:{member.port}",
            "connect_address": f"127.0.0.1:{member.port}",
            "data_dir": str(member.data),
            "bin_dir": str(binaries),
            "pgpass": str(member.home / "pgpass"),
            "pg_hba": [
                "host all all 127.0.0.1/32 scram-sha-256",
                "host replication all 127.0.0.1/32 scram-sha-256",
            ],
            "authentication": {"superuser": account, "replication": account, "rewind": account},
            "parameters": {"unix_socket_directories": str(member.home)},
        },
    })  # fmt: skip


def haproxy(port: int, members: Sequence[Member]) -> str:
    """Return the way to the primary. HAProxy closes sessions of a node that is demoted."""
    servers = "\n".join(
        f"    server {m.name} 127.0.0.1:{m.port} check port {m.rest}" for m in members
    )
    return f"""
defaults
    mode tcp
    timeout connect 2s
    timeout client 30m
    timeout server 30m
    timeout check 1s
listen primary
    bind 127.0.0.1:{port}
    option httpchk OPTIONS /primary
    http-check expect status 200
    default-server inter 1s fall 2 rise 1 on-marked-down shutdown-sessions
{servers}
"""


def pgbouncer(port: int, behind: int, users: Path) -> str:
    return f"""
[databases]
{DATABASE} = host=127.0.0.1 port={behind} dbname={DATABASE}
[pgbouncer]
listen_addr = 127.0.0.1
listen_port = {port}
unix_socket_dir =
auth_type = scram-sha-256
auth_file = {users}
pool_mode = transaction
server_login_retry = 1
ignore_startup_parameters = extra_float_digits
"""
