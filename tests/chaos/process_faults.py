"""Faults of processes."""

import signal

from tests.chaos.play import STALLED, Fault, Play

KILLED = "a worker was killed in the middle of a job"
SLOTS = 4  # of a worker, and it claims two more jobs ahead
STOPPED = "a process was stopped for longer than its heartbeat"


def kill_a_worker(play: Play) -> None:
    caught = play.clients.caught_in_a_job(play.dice)
    if caught is not None:
        play.clients.kill(caught[0])
    play.hold(1)


def kill_all_workers(play: Play) -> None:
    for client in play.clients.workers():
        play.clients.kill(client)
    play.hold(2)


def kill_a_producer(play: Play) -> None:
    play.clients.kill(play.dice.choice(play.clients.producers()))
    play.hold(1)


def stop_briefly(play: Play) -> None:
    _stop(play, 2.0)


def stop_for_long(play: Play) -> None:
    _stop(play, play.stalled + 3.0)
    play.hold(1)


def _stop(play: Play, seconds: float) -> None:
    caught = play.clients.caught_in_a_job(play.dice)
    if caught is not None:
        play.hold(seconds)
        play.clients.wake(*caught)


def sleep_over_short_jobs(play: Play) -> None:
    """Stop workers, twice each, that have claimed short jobs which others then run."""
    for client in play.clients.workers()[:2]:
        for _ in range(2):
            for _ in range(4 * SLOTS):
                play.defer(0.02)
            since = play.clients.stop(client)
            play.hold(play.stalled + 1.0)
            play.clients.wake(client, since)
            play.hold(0.5)


def deploy(play: Play) -> None:
    signals = play.dice.choice(
        [(signal.SIGTERM,), (signal.SIGHUP,), (signal.SIGTERM, signal.SIGTERM)]
    )
    play.clients.restart(play.dice.choice(play.clients.workers()), *signals)
    play.hold(1)


FAULTS = [
    Fault("a worker is killed", kill_a_worker, 3, (KILLED,)),
    Fault("all workers are killed", kill_all_workers, 3, ()),
    Fault("a producer is killed", kill_a_producer, 2, ()),
    Fault("a worker is stopped briefly", stop_briefly, 3, ()),
    Fault("a worker is stopped beyond its heartbeat", stop_for_long, STALLED + 6, (STOPPED,)),
    Fault("workers sleep over short jobs", sleep_over_short_jobs, 4 * (STALLED + 3), (STOPPED,)),
    Fault("a worker is asked to end, and another one begins", deploy, 10, ()),
]
