"""What happens to processes."""

import signal

from tests.chaos.play import STALLED, Fault, Play

KILLED = "a worker was killed in the middle of a job"
STOPPED = "a process was stopped for longer than its heartbeat"


def kill_a_worker(play: Play) -> None:
    caught = play.crew.caught_in_a_job(play.dice)
    if caught is not None:
        play.crew.kill(caught[0])
    play.hold(1)


def kill_all_workers(play: Play) -> None:
    for member in play.crew.workers():
        play.crew.kill(member)
    play.hold(2)


def kill_a_producer(play: Play) -> None:
    play.crew.kill(play.dice.choice(play.crew.producers()))
    play.hold(1)


def stop_briefly(play: Play) -> None:
    _stop(play, 2.0)


def stop_for_long(play: Play) -> None:
    _stop(play, play.stalled + 3.0)
    play.hold(1)


def _stop(play: Play, seconds: float) -> None:
    caught = play.crew.caught_in_a_job(play.dice)
    if caught is not None:
        play.hold(seconds)
        play.crew.wake(*caught)


def deploy(play: Play) -> None:
    signals = play.dice.choice(
        [(signal.SIGTERM,), (signal.SIGHUP,), (signal.SIGTERM, signal.SIGTERM)]
    )
    play.crew.restart(play.dice.choice(play.crew.workers()), *signals)
    play.hold(1)


FAULTS = [
    Fault("a worker is killed", kill_a_worker, 3, (KILLED,)),
    Fault("all workers are killed", kill_all_workers, 3, ()),
    Fault("a producer is killed", kill_a_producer, 2, ()),
    Fault("a worker is stopped briefly", stop_briefly, 3, ()),
    Fault("a worker is stopped beyond its heartbeat", stop_for_long, STALLED + 6, (STOPPED,)),
    Fault("a worker is told to end, and another one begins", deploy, 10, ()),
]
