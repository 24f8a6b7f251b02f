"""Lanes as a person would keep them in a book: what each operation must do, without any SQL.

The operations come one after the other. Some answers of the engine are random: which of many free
jobs a claim with little room takes, and whether a finish hands the next job over. The book is
given these answers and says whether they were allowed.
"""

from dataclasses import dataclass, field
from typing import Literal

Place = Literal["waiting", "scheduled", "doing", "finished"]


@dataclass
class Job:
    id: int
    lane: str | None
    queue: str
    priority: int
    on_retry: str
    on_failure: str
    place: Place
    due: int = 0  # scheduled: until when
    worker: int | None = None
    attempts: int = 0
    status: str = ""  # finished: as what

    @property
    def rank(self) -> tuple[int, int]:
        return -self.priority, self.id


@dataclass
class Lane:
    holder: int | None = None  # the job that is being done
    reserved: int | None = None  # the job that goes next, whatever waits
    stopped: str | None = None
    until: int | None = None
    failed: int | None = None

    @property
    def state(self) -> str | None:
        if self.holder is not None:
            return "held"
        return self.stopped or ("retrying" if self.reserved is not None else None)

    def go_on(self) -> None:
        self.stopped = self.until = self.failed = None


@dataclass
class Book:
    now: int = 0
    jobs: dict[int, Job] = field(default_factory=dict)
    lanes: dict[str, Lane] = field(default_factory=dict)

    # -- what it knows

    def lane(self, lock: str) -> Lane:
        return self.lanes.setdefault(lock, Lane())

    def live(self) -> list[Job]:
        return [job for job in self.jobs.values() if job.place != "finished"]

    def waiting(self, lock: str | None) -> list[Job]:
        found = [job for job in self.jobs.values() if job.lane == lock and job.place == "waiting"]
        return sorted(found, key=lambda job: job.rank)

    def next_of(self, lock: str) -> Job | None:
        """The job that goes next when the lane goes on, if there is one and it is due."""
        reserved = self.lane(lock).reserved
        if reserved is not None:
            return self.jobs[reserved] if self.jobs[reserved].place == "waiting" else None
        return next(iter(self.waiting(lock)), None)

    def startable(self, queues: list[str] | None) -> set[int]:
        """What a claim may start that serves these queues."""
        heads = [
            self.next_of(lock)
            for lock, lane in self.lanes.items()
            if lane.state in (None, "retrying")
        ]
        jobs = self.waiting(None) + [head for head in heads if head is not None]
        return {job.id for job in jobs if queues is None or job.queue in queues}

    # -- what happens

    def add(self, job: Job) -> None:
        self.jobs[job.id] = job
        if job.lane is not None:
            self.lane(job.lane)

    def tick(self) -> None:
        """What any claim does first: what is due takes its place, pauses that are over end."""
        for job in self.jobs.values():
            if job.place == "scheduled" and job.due <= self.now:
                job.place = "waiting"
        for lane in self.lanes.values():
            if lane.until is not None and lane.until <= self.now:
                lane.go_on()

    def start(self, id: int, worker: int) -> None:
        job = self.jobs[id]
        job.place, job.worker, job.attempts = "doing", worker, job.attempts + 1
        if job.lane is not None:
            lane = self.lane(job.lane)
            lane.holder, lane.reserved = id, None

    def end(self, id: int, status: str) -> None:
        job = self.jobs[id]
        job.place, job.status = "finished", status
        if job.lane is not None:
            lane = self.lane(job.lane)
            lane.holder = None
            if status == "failed" and job.on_failure == "halt":
                lane.stopped, lane.failed, lane.until = "halted", id, None

    def retry(self, id: int, delay: int) -> None:
        job = self.jobs[id]
        job.place, job.due = ("scheduled", self.now + delay) if delay else ("waiting", 0)
        if job.lane is not None:
            lane = self.lane(job.lane)
            lane.holder, lane.reserved = None, id if job.on_retry == "hold" else None

    def put_back(self, id: int) -> None:
        """It was claimed and not begun."""
        job = self.jobs[id]
        job.place, job.attempts = "waiting", job.attempts - 1
        if job.lane is not None:
            lane = self.lane(job.lane)
            lane.holder, lane.reserved = (
                None,
                id if job.attempts and job.on_retry == "hold" else None,
            )

    def rescue(self, worker: int) -> list[int]:
        lost = [
            job.id for job in self.jobs.values() if job.place == "doing" and job.worker == worker
        ]
        for id in lost:
            self.retry(id, 0)
        return lost

    # -- what people do; each returns what the engine must answer

    def cancel(self, id: int) -> str | None:
        job = self.jobs.get(id)
        if job is None:
            return None
        if job.place == "finished":
            return job.status
        if job.place == "doing":
            return "doing"
        job.place, job.status = "finished", "cancelled"
        if job.lane is not None and self.lane(job.lane).reserved == id:
            self.lane(job.lane).reserved = None
        return job.status

    def delete(self, id: int) -> bool:
        if self.cancel(id) in (None, "doing"):
            return False
        del self.jobs[id]
        return True

    def pause(self, lock: str, until: int | None) -> bool:
        lane = self.lane(lock)
        if lane.stopped == "halted":
            return False
        lane.stopped, lane.until = "paused", until
        return True

    def resume(self, lock: str) -> bool:
        lane = self.lane(lock)
        was_stopped = lane.stopped is not None
        lane.go_on()
        return was_stopped

    def skip_head(self, lock: str) -> int | None:
        lane = self.lane(lock)
        if lane.stopped == "halted":
            failed = lane.failed
            lane.go_on()
            return failed
        waiting = [job.id for job in self.waiting(lock)]
        head = lane.reserved if lane.reserved is not None else next(iter(waiting), None)
        if head is not None:
            self.cancel(head)
        return head

    def retry_head(self, lock: str) -> int | None:
        lane = self.lane(lock)
        head = lane.failed if lane.failed is not None else lane.reserved
        if head is None or head not in self.jobs:
            return None
        self.jobs[head].place = "waiting"
        if lane.stopped != "paused":
            lane.go_on()
        lane.reserved = head
        return head

    def cancel_waiting(self, lock: str) -> int:
        reserved = self.lane(lock).reserved
        gone = {job.id for job in self.waiting(lock)} | (
            {reserved} if reserved is not None else set()
        )
        for id in gone:
            self.cancel(id)
        return len(gone)

    def retry_job(self, id: int) -> bool:
        for lock, lane in self.lanes.items():
            if lane.failed == id:
                return self.retry_head(lock) is not None
        job = self.jobs.get(id)
        if job is None or job.place not in ("scheduled", "finished"):
            return False
        job.place = "waiting"
        return True
