"""Faults between a process and the server."""

import time
from collections.abc import Callable

from tests.chaos.clients import Client
from tests.chaos.play import STALLED, Fault, Play
from tests.chaos.proxy import Route, Trap, Weather

PATIENCE = 4.0  # seconds until the message to lose comes by
SWALLOWED = "a half-open connection swallowed messages"
WIRE = "the reply to a {} was lost"


def lose(purpose: str, lost: str, *, mute: bool = False) -> Callable[[Play], None]:
    """Lose the next message of this kind of each process, twice."""

    def inflict(play: Play) -> None:
        clients = (
            play.clients.producers() if purpose in ("commit", "defer") else play.clients.workers()
        )
        routes = [play.network.routes[client.slot] for client in clients]
        for _ in range(2):
            play.network.each(
                lambda route: route.weather.traps.append(Trap(purpose, lost, mute)),
                *(client.slot for client in clients),
            )
            until = time.monotonic() + PATIENCE
            while time.monotonic() < until and any(route.weather.traps for route in routes):
                play.hold(0.1)
            play.network.each(lambda route: route.weather.traps.clear())
            play.hold(0.3)

    return inflict


def lose_notifications(play: Play) -> None:
    """Lose notifications while workers sleep and need them. They must find the jobs anyway."""
    stopped = [(client, play.clients.stop(client)) for client in play.clients.producers()]
    try:
        until = time.monotonic() + 2 * PATIENCE
        while (
            play.query("SELECT FROM jobs WHERE status IN ('todo', 'blocked') LIMIT 1")
            and time.monotonic() < until
        ):
            play.hold(0.1)
        play.network.each(lambda route: _change(route.weather, {"swallows_notifications": True}))
        for _ in range(4):
            play.defer(0.01)
            play.hold(1)
    finally:
        for client, since in stopped:
            play.clients.wake(client, since, "rested")


def weather(seconds: float, **changes: object) -> Callable[[Play], None]:
    def inflict(play: Play) -> None:
        play.network.each(lambda route: _change(route.weather, changes))
        play.hold(seconds)

    return inflict


def _change(weather: Weather, changes: dict[str, object]) -> None:
    for name, value in changes.items():
        setattr(weather, name, value)


def freeze_everybody(play: Play) -> None:
    """Freeze all connections for longer than a heartbeat.

    All processes are cut off alike, so none may judge another: this explains nothing.
    """
    play.network.each(lambda route: route.freeze())
    play.hold(play.stalled + 3)
    play.network.each(lambda route: route.heal())
    play.hold(3)


def silence(
    seconds: float, change: Callable[[Route], object], *, everybody: bool = False
) -> Callable[[Play], None]:
    """Nothing that these workers send arrives."""

    def inflict(play: Play) -> None:
        clients: list[Client] = (
            play.clients.workers() if everybody else [play.dice.choice(play.clients.workers())]
        )
        since = time.monotonic_ns()
        play.network.each(
            change, *(route for client in clients for route in play.clients.routes(client))
        )
        play.hold(seconds)
        play.network.each(lambda route: route.heal())
        for client in clients:
            play.clients.silent(client, since, "cut")
        play.hold(2)

    return inflict


def forget(play: Play) -> None:
    """Make all connections half-open, until each process has noticed or the fault ends."""
    silence(30.0, lambda route: route.forget(), everybody=True)(play)


def refuse(route: Route) -> None:
    route.weather.refuses = True
    route.reset()


def cut_frames(play: Play) -> None:
    for _ in range(3):
        play.network.each(lambda route: _change(route.weather, {"cuts_a_frame": True}))
        play.hold(1)


FAULTS = [
    Fault("the reply to a claim is lost", lose("claim", "reply"), 6, (WIRE.format("claim"),)),
    Fault("the reply to a finish is lost", lose("finish", "reply"), 6, (WIRE.format("finish"),)),
    Fault("the reply to a COMMIT is lost", lose("commit", "reply"), 6,
          (WIRE.format("commit"), "a call had no clear answer")),
    Fault("the reply to a defer is lost", lose("defer", "reply"), 6, (WIRE.format("defer"),)),
    Fault("the reply to a heartbeat is lost", lose("heartbeat", "reply"), 6,
          (WIRE.format("heartbeat"),)),
    Fault("the request of a claim is lost", lose("claim", "request"), 6,
          ("the request of a claim was lost",)),
    Fault("the request of a finish is lost", lose("finish", "request"), 6,
          ("the request of a finish was lost",)),
    Fault("the request of a COMMIT is lost", lose("commit", "request"), 6,
          ("the request of a commit was lost",)),
    Fault("the reply to a claim never comes", lose("claim", "reply", mute=True), 20,
          (WIRE.format("claim"),)),
    Fault("the reply to a finish never comes", lose("finish", "reply", mute=True), 20,
          (WIRE.format("finish"),)),
    Fault("notifications are lost", lose_notifications, 14, ("a notification was lost",)),
    Fault("the network is slow", weather(4, delay=0.1), 5, ()),
    Fault("the network delivers single bytes", weather(3, trickles=True), 4, ()),
    Fault("connections are reset in the middle of a message", cut_frames, 4,
          ("a connection was reset in the middle of a message",)),
    Fault("a worker's connections freeze for 3 s", silence(3, lambda route: route.freeze()), 6, ()),
    Fault("a worker's connections freeze beyond its heartbeat",
          silence(STALLED + 3, lambda route: route.freeze()), 12, ()),
    Fault("a worker's connections are half-open",
          silence(STALLED + 6, lambda route: route.forget()), 15, (SWALLOWED,)),
    Fault("all connections are half-open", forget, 34, (SWALLOWED,), 10),
    Fault("everybody's connections freeze beyond a heartbeat", freeze_everybody, 14, (),
          STALLED + 3),
    Fault("a worker is refused for 3 s", silence(3, refuse), 6, ()),
]  # fmt: skip
