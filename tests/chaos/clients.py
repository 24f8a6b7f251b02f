"""The worker and producer processes of a run, and which were killed, stopped or ended."""

import os
import random
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import IO

from tests.chaos.proxy import Network
from tests.chaos.server import Server, with_parent
from tests.evidence.events import History, Tail
from tests.evidence.record import environment

ROOT = Path(__file__).parents[2]
CATCHING = 10.0  # seconds to catch a worker in a job
LIMIT = 30.0  # for a process to end: only keeps a failing run from hanging


@dataclass(eq=False)
class Client:
    slot: str  # names its route, which its successor gets too
    who: str
    process: subprocess.Popen[bytes]
    log: IO[bytes]


class Clients:
    def __init__(
        self, folder: Path, run: str, history: History, server: Server, network: Network
    ) -> None:
        self.folder, self.run, self.history, self.server, self.network = (
            folder,
            run,
            history,
            server,
            network,
        )
        self.clients: dict[str, Client] = {}
        self.tail = Tail(folder)
        self._births = 0
        self._commands: dict[str, list[str]] = {}
        self._settings: dict[str, dict[str, str]] = {}  # more environment variables

    def add(self, slot: str, command: list[str], pooler: int | None = None) -> None:
        """Start a process. With `pooler`, it connects through this port, but listens directly."""
        self.network.open(slot, None if pooler is None else lambda: pooler)
        self._commands[slot] = command
        if pooler is not None:
            self.network.open(f"{slot}-listens")
            listens = self.server.dsn_at(self.network.routes[f"{slot}-listens"].port)
            self._settings[slot] = {"CHAOS_POOLED": "1", "INTURN_LISTEN_DSN": listens}
        self._start(slot)

    def routes(self, client: Client) -> list[str]:
        return [
            name for name in self.network.routes if name.partition("-listens")[0] == client.slot
        ]

    def workers(self) -> list[Client]:
        return [client for client in self.clients.values() if client.slot.startswith("worker")]

    def producers(self) -> list[Client]:
        return [client for client in self.clients.values() if client.slot.startswith("producer")]

    def keep(self) -> None:
        """Record which processes ended unasked, and replace them."""
        for client in list(self.clients.values()):
            if client.process.poll() is not None:
                self._note_exit(client, asked=False)
                self._start(client.slot)

    def kill(self, client: Client) -> None:
        client.process.kill()
        client.process.wait()
        client.log.close()
        self.history.write("killed", victim=client.who)
        self._start(client.slot)

    @contextmanager
    def all_killed(self) -> Iterator[None]:
        """Kill the workers. After the block, start all that have been dismissed or killed."""
        slots = [slot for slot in self._commands if slot not in self.clients]
        for client in self.workers():
            client.process.kill()
            client.process.wait()
            client.log.close()
            self.history.write("killed", victim=client.who)
            del self.clients[client.slot]
            slots.append(client.slot)
        yield
        for slot in slots:
            self._start(slot)

    def stop(self, client: Client) -> int:
        """Stop a process, and return since when it is stopped."""
        since = self.history.write("stopping", victim=client.who)
        client.process.send_signal(signal.SIGSTOP)
        os.waitpid(client.process.pid, os.WUNTRACED)
        return since

    def wake(self, client: Client, since: int, how: str = "stopped") -> None:
        client.process.send_signal(signal.SIGCONT)
        self.silent(client, since, how)

    def silent(self, client: Client, since: int, how: str) -> None:
        self.history.write(
            "silent", victim=client.who, start=since, end=self.history.write("woken"), how=how
        )

    def restart(self, client: Client, *signals: signal.Signals) -> None:
        """End a process in order and start another, as a deployment does.

        Signals that arrive in one instant count as one.
        """
        for each in signals:
            client.process.send_signal(each)
        self._wait_for(client)
        self._start(client.slot)

    def dismiss(self, clients: list[Client]) -> None:
        for client in clients:
            client.process.send_signal(signal.SIGTERM)
        for client in clients:
            self._wait_for(client)
            del self.clients[client.slot]

    def close(self) -> None:
        for client in self.clients.values():
            client.process.kill()
            client.process.wait()
            client.log.close()

    def caught_in_a_job(self, dice: random.Random) -> tuple[Client, int] | None:
        """Stop a worker in the middle of a job. Return the worker, and since when it is stopped."""
        deadline = time.monotonic() + CATCHING
        while time.monotonic() < deadline:
            client = dice.choice(self.workers())
            if client.process.poll() is None and self._is_at_work(client):
                since = self.stop(client)
                if self._is_at_work(client):
                    return client, since
                # It went on at once, which explains nothing, so this is not a silence.
                client.process.send_signal(signal.SIGCONT)
            time.sleep(0.005)
        return None

    def _is_at_work(self, client: Client) -> bool:
        """Return True if its history shows a running job."""
        self.tail.look()
        return bool(self.tail.running[client.who])

    def _wait_for(self, client: Client) -> None:
        """Wait for the end. Do not send a second signal, because it would mean to end at once."""
        try:
            client.process.wait(LIMIT)
        except subprocess.TimeoutExpired:
            self.history.write(
                "problem",
                rule="does not end",
                text=f"{client.who} still runs {LIMIT:g} s after SIGTERM",
            )
            client.process.kill()
            client.process.wait()
        self._note_exit(client, asked=True)

    def _note_exit(self, client: Client, *, asked: bool) -> None:
        client.log.close()
        lines = (self.folder / f"{client.who}.log").read_text(errors="replace").strip().splitlines()
        status = client.process.returncode
        self.history.write(
            "exited",
            victim=client.who,
            status=status,
            asked=asked,
            last=lines[-1][:300] if lines else "",
        )

    def _start(self, slot: str) -> None:
        self._births += 1
        who = f"{slot}.{self._births}"
        log = (self.folder / f"{who}.log").open("wb")
        settings = {
            **os.environ,
            **environment(self.folder, self.run, who),
            "INTURN_DSN": self.server.dsn_at(self.network.routes[slot].port),
            **({"CHAOS_WORKER": "1"} if slot.startswith("worker") else {}),
            **self._settings.get(slot, {}),
        }
        self.history.write("spawned", victim=who)
        process = subprocess.Popen(
            [sys.executable, *self._commands[slot]],
            cwd=ROOT,
            env=settings,
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            start_new_session=True,
            preexec_fn=with_parent(signal.SIGKILL),
        )
        self.clients[slot] = Client(slot, who, process, log)
