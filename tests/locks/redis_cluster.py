"""A Redis Cluster of three nodes on this machine, for the tests; Redis 7 or later."""

import socket
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager

import redis

from tests.locks.redis_server import START_SECONDS

NODES = 3
SLOTS = 16384


@contextmanager
def cluster(binary: str) -> Iterator[int]:
    """The port of one of its nodes."""
    with ExitStack() as stack:
        ports = _free_ports(2 * NODES)
        buses = dict(zip(ports[:NODES], ports[NODES:], strict=True))
        for port, bus in buses.items():
            stack.enter_context(_node(binary, port, bus))
        nodes = [stack.enter_context(redis.Redis(port=port, decode_responses=True)) for port in buses]
        _until(lambda: all(map(_answers, nodes)))
        for number, node in enumerate(nodes):
            first, last = number * SLOTS // NODES, (number + 1) * SLOTS // NODES - 1
            node.execute_command("CLUSTER ADDSLOTSRANGE", first, last)
            node.execute_command("CLUSTER SET-CONFIG-EPOCH", number + 1)
        for port, bus in buses.items():
            nodes[0].execute_command("CLUSTER MEET", "127.0.0.1", port, bus)
        _until(lambda: all(_is_whole(node) for node in nodes))
        yield ports[0]


@contextmanager
def _node(binary: str, port: int, bus: int) -> Iterator[None]:
    with tempfile.TemporaryDirectory(prefix="inturn-redis-") as folder:
        options = ["--port", port, "--cluster-port", bus, "--bind", "127.0.0.1", "--cluster-enabled", "yes"]
        options += ["--save", "", "--appendonly", "no", "--dir", folder, "--cluster-node-timeout", 2000]
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
    said = node.execute_command("CLUSTER INFO")
    return (said["cluster_state"], said["cluster_known_nodes"]) == ("ok", str(NODES))


def _until(condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + START_SECONDS
    while not condition():
        assert time.monotonic() < deadline, "the cluster did not form"
        time.sleep(0.02)


def _free_ports(count: int) -> list[int]:
    with ExitStack() as stack:
        taken = [stack.enter_context(socket.socket()) for _ in range(count)]
        for one in taken:
            one.bind(("127.0.0.1", 0))
        return [one.getsockname()[1] for one in taken]
