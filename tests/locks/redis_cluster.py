"""A Redis Cluster of three nodes on this machine, for the tests."""

import random
import socket
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress

import redis

from tests.locks.conftest import until

NODES = 3
SLOTS = 16384
BUS = 10_000


@contextmanager
def cluster(binary: str) -> Iterator[int]:
    """Start a cluster. Yield the port of one of its nodes."""
    with ExitStack() as stack:
        ports = _free_ports(NODES)
        for port in ports:
            stack.enter_context(_node(binary, port))
        nodes = [
            stack.enter_context(redis.Redis(port=port, decode_responses=True)) for port in ports
        ]
        until(lambda: all(map(_answers, nodes)))
        for number, node in enumerate(nodes):
            slots = range(number * SLOTS // NODES, (number + 1) * SLOTS // NODES)
            node.execute_command("CLUSTER ADDSLOTS", *slots)
            node.execute_command("CLUSTER SET-CONFIG-EPOCH", number + 1)
        for port in ports:
            nodes[0].execute_command("CLUSTER MEET", "127.0.0.1", port)
        until(lambda: all(_is_whole(node) for node in nodes))
        yield ports[0]


@contextmanager
def _node(binary: str, port: int) -> Iterator[None]:
    with tempfile.TemporaryDirectory(prefix="inturn-redis-") as folder:
        options = ["--port", port, "--bind", "127.0.0.1", "--cluster-enabled", "yes"]
        options += ["--save", "", "--appendonly", "no", "--dir", folder]
        options += ["--cluster-node-timeout", 30_000]
        with subprocess.Popen([binary, *map(str, options)], stdout=subprocess.DEVNULL) as process:
            try:
                yield
            finally:
                process.kill()


def _answers(node: "redis.Redis") -> bool:
    try:
        return bool(node.ping())
    except redis.ConnectionError:
        return False


def _is_whole(node: "redis.Redis") -> bool:
    info: dict[str, str] = node.execute_command("CLUSTER INFO")  # type: ignore[no-untyped-call]
    return (info["cluster_state"], info["cluster_known_nodes"]) == ("ok", str(NODES))


def _free_ports(count: int) -> list[int]:
    """Return ports that are free together with the ports of the cluster bus above them."""
    found: list[int] = []
    with ExitStack() as stack:
        while len(found) < count:
            port = random.randrange(20_000, 32_768 - BUS)  # below those that the kernel gives out
            with suppress(OSError):
                for one in (port, port + BUS):
                    stack.enter_context(socket.socket()).bind(("127.0.0.1", one))
                found.append(port)
    return found
