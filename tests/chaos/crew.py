"""The processes of a run: who is there, who was killed, stopped or told to end, and who ended by himself."""

import json
import os
import random
import signal
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path
from typing import IO

from tests.chaos.history import History
from tests.chaos.proxy import Network
from tests.chaos.server import Server, with_parent

ROOT = Path(__file__).parents[2]
TAIL = 200_000  # bytes of a history; a job that runs began in them
CATCHING = 10.0  # seconds to catch a worker in a job
LIMIT = 30.0  # for a process to end; only keeps a failing run from hanging


@dataclass(eq=False)
class Member:
    slot: str  # whose route it has, and who comes after it has the same
    who: str
    process: subprocess.Popen[bytes]
    log: IO[bytes]


class Crew:
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
        self.members: dict[str, Member] = {}
        self._births = 0
        self._commands: dict[str, list[str]] = {}
        self._settings: dict[str, dict[str, str]] = {}  # more of the environment

    def add(self, slot: str, command: list[str], pooler: int | None = None) -> None:
        """`pooler`: the port of one that the process goes through; it listens past it."""
        self.network.open(slot, None if pooler is None else lambda: pooler)
        self._commands[slot] = command
        if pooler is not None:
            self.network.open(f"{slot}-listens")
            listens = self.server.dsn_at(self.network.routes[f"{slot}-listens"].port)
            self._settings[slot] = {"CHAOS_POOLED": "1", "INTURN_LISTEN_DSN": listens}
        self._start(slot)

    def routes(self, member: Member) -> list[str]:
        return [
            name for name in self.network.routes if name.partition("-listens")[0] == member.slot
        ]

    def workers(self) -> list[Member]:
        return [member for member in self.members.values() if member.slot.startswith("worker")]

    def producers(self) -> list[Member]:
        return [member for member in self.members.values() if member.slot.startswith("producer")]

    def keep(self) -> None:
        """Note who ended by himself, and put another one in his place."""
        for member in list(self.members.values()):
            if member.process.poll() is not None:
                self._note_exit(member, asked=False)
                self._start(member.slot)

    def kill(self, member: Member) -> None:
        member.process.kill()
        member.process.wait()
        member.log.close()
        self.history.write("killed", victim=member.who)
        self._start(member.slot)

    def stop(self, member: Member) -> int:
        """Stop it; since when."""
        since = self.history.write("stopping", victim=member.who)
        member.process.send_signal(signal.SIGSTOP)
        os.waitpid(member.process.pid, os.WUNTRACED)
        return since

    def wake(self, member: Member, since: int, how: str = "stopped") -> None:
        member.process.send_signal(signal.SIGCONT)
        self.silent(member, since, how)

    def silent(self, member: Member, since: int, how: str) -> None:
        self.history.write(
            "silent", victim=member.who, start=since, end=self.history.write("woken"), how=how
        )

    def restart(self, member: Member, *signals: signal.Signals) -> None:
        """As a deployment does: let it end in order, then start another one. Signals in one instant are one."""
        for each in signals:
            member.process.send_signal(each)
        self._wait_for(member)
        self._start(member.slot)

    def dismiss(self, members: list[Member]) -> None:
        for member in members:
            member.process.send_signal(signal.SIGTERM)
        for member in members:
            self._wait_for(member)
            del self.members[member.slot]

    def close(self) -> None:
        for member in self.members.values():
            member.process.kill()
            member.process.wait()
            member.log.close()

    def caught_in_a_job(self, dice: random.Random) -> tuple[Member, int] | None:
        """A worker that is stopped in the middle of a job, and since when."""
        deadline = time.monotonic() + CATCHING
        while time.monotonic() < deadline:
            member = dice.choice(self.workers())
            if member.process.poll() is None and self._is_at_work(member):
                since = self.stop(member)
                if self._is_at_work(member):
                    return member, since
                # It went on at once, which explains nothing: so it is no silence.
                member.process.send_signal(signal.SIGCONT)
            time.sleep(0.005)
        return None

    def _is_at_work(self, member: Member) -> bool:
        """As the end of its history says."""
        path = self.folder / f"{member.who}.jsonl"
        runs = set()
        for line in tail(path) if path.exists() else []:
            try:
                event = json.loads(line)
            except json.JSONDecodeError:  # the first one and the one that is just being written
                continue
            if event["ev"] == "begin":
                runs.add(event["fence"])
            elif event["ev"] == "end":
                runs.discard(event["fence"])
        return bool(runs)

    def _wait_for(self, member: Member) -> None:
        """A single signal: the second one would mean to end at once."""
        try:
            member.process.wait(LIMIT)
        except subprocess.TimeoutExpired:
            self.history.write(
                "problem",
                rule="does not end",
                text=f"{member.who} still runs {LIMIT:g} s after SIGTERM",
            )
            member.process.kill()
            member.process.wait()
        self._note_exit(member, asked=True)

    def _note_exit(self, member: Member, *, asked: bool) -> None:
        member.log.close()
        lines = (self.folder / f"{member.who}.log").read_text(errors="replace").strip().splitlines()
        status = member.process.returncode
        self.history.write(
            "exited",
            victim=member.who,
            status=status,
            asked=asked,
            last=lines[-1][:300] if lines else "",
        )

    def _start(self, slot: str) -> None:
        self._births += 1
        who = f"{slot}.{self._births}"
        log = (self.folder / f"{who}.log").open("wb")
        environment = os.environ | {
            "INTURN_DSN": self.server.dsn_at(self.network.routes[slot].port),
            "CHAOS_FOLDER": str(self.folder),
            "CHAOS_RUN": self.run,
            "CHAOS_WHO": who,
            **({"CHAOS_WORKER": "1"} if slot.startswith("worker") else {}),
            **self._settings.get(slot, {}),
        }
        self.history.write("spawned", victim=who)
        process = subprocess.Popen(
            [sys.executable, *self._commands[slot]],
            cwd=ROOT,
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            start_new_session=True,
            preexec_fn=with_parent(signal.SIGKILL),
        )
        self.members[slot] = Member(slot, who, process, log)


def tail(path: Path) -> list[bytes]:
    with path.open("rb") as file:
        file.seek(max(0, path.stat().st_size - TAIL))
        return file.read().splitlines()
