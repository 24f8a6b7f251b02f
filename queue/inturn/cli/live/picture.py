"""The page of `queue top`."""

from collections import Counter
from collections.abc import Iterator

import click

from inturn.cli.arguments.pause import explain_pause
from inturn.cli.live.look import Look, Rates
from inturn.cli.output.next_command import complete
from inturn.cli.output.printing import STYLES, Output
from inturn.cli.output.terminal import find_width
from inturn.doctor.troubled_lane import StuckLane
from inturn.doctor.work import advise_deployment, is_unserved
from inturn.formatting import amount, at_least, option_value, relative, span, visible
from inturn.operations.changes.pauses import PausedQueue, PausedTask
from inturn.operations.engine.workers import QueueStatus

STATES = ("halted", "stalled", "delayed", "paused", "retrying", "held")
WIDE = 100  # columns that fit a lane and its reason on one line
LINES_OF_LANE = 3
MARGIN = 8  # lines for the header, titles and gaps


def print_look(look: Look, rows: int | None) -> None:
    """Print the queue, problems first.

    With `rows`, lanes get at least half of them, so that the worst is always visible.
    """
    if look.mismatch is not None:
        problem, command = look.mismatch
        _say(f"{problem}: {complete(command)}", "red")
    _say(_rates(look.rates))
    _say(f"lanes: {_states(_count_states(look))}", cut=True)
    _print_lanes(look, None if rows is None else _count_lanes(look, rows))
    _print_limits(look)
    _print_queues(look)
    _print_workers(look)


def _count_lanes(look: Look, rows: int) -> int:
    others = len(look.queues) + len(look.workers) + len(look.limits) + MARGIN
    return max(1, max(rows // 2, rows - others) // LINES_OF_LANE)


def _count_states(look: Look) -> dict[str, int]:
    """Count lanes by state, from the database's counts and the lanes shown below."""
    shown = Counter(lane.state for lane in look.troubled)
    counts = {state: max(look.lanes.get(state, 0), shown[state]) for state in STATES}
    # The database counts a lane as held even if its worker is blocked.
    counts["held"] -= counts["stalled"] - look.lanes.get("stalled", 0)
    return counts | {state: count for state, count in shown.items() if state not in counts}


def _say(text: str, style: str = "", *, cut: bool = False) -> None:
    """Print a line. On a terminal, it is cut or wrapped."""
    if find_width() is None:
        click.echo(text)
        return
    from rich.console import Console
    from rich.text import Text

    Console(highlight=False).print(
        Text(text, style), no_wrap=cut, overflow="ellipsis" if cut else "fold"
    )


def _rates(rates: Rates) -> str:
    failed = f"{amount(rates.failed_last_minute, 'job')} failed in the last minute"
    if rates.ended is None or rates.deferred is None:
        return f"jobs a second: after the next refresh. {failed}"
    return f"jobs a second: {rates.ended:.1f} ended, {rates.deferred:.1f} deferred. {failed}"


def _states(counts: dict[str, int]) -> str:
    most = 10_000
    known = [
        f"{at_least(count, count >= most)} {state}" for state, count in counts.items() if count
    ]
    return ", ".join(known) or "none in use or stopped"


def _print_lanes(look: Look, most: int | None) -> None:
    shown = look.troubled[:most]
    if shown:
        _say("")
    for lane in shown:
        for line, style, cut in _draw_lane(lane, look):
            _say(line, style, cut=cut)
    if len(look.troubled) > len(shown):
        others = len(look.troubled) - len(shown)
        _say(complete(f"… {others:,} more: queue lanes list"), "dim")


def _draw_lane(lane: StuckLane, look: Look) -> Iterator[tuple[str, str, bool]]:
    """Yield lines, each with a style, and True if it may be cut. Commands are never cut."""
    waiting = f"{at_least(lane.waiting, lane.more)} waiting"
    head = f"{visible(lane.lock)}  {lane.state} {span(look.at - lane.since)}, {waiting}"
    style = STYLES.get(lane.state, "yellow")
    why = visible(lane.why)
    if (find_width() or WIDE) >= WIDE:
        yield f"{head}  {why}".rstrip(), style, True
    else:
        yield head, style, True
        if why:
            yield f"  {why}", "", True
    if lane.unblock:
        yield f"  unblock: {visible(lane.unblock)}", "", False


def _print_limits(look: Look) -> None:
    if not look.limits:
        return
    columns = {
        "LIMIT": lambda limit: limit.pattern,
        "HOLDS": lambda limit: f"{limit.limited:,}",
        "RUNNING": lambda limit: f"{limit.running:,}",
        "OF": lambda limit: str(limit.concurrency or ""),
        "RATE": lambda limit: limit.rate or "",
    }
    click.echo()
    Output("table").records(look.limits, columns, "")
    for reason in look.limited:
        _say(visible(reason.detail))
        _say(f"  unblock: {visible(reason.unblock or '')}")


def _print_queues(look: Look) -> None:
    def count(number: int, queue: QueueStatus) -> str:
        return at_least(number, queue.more)

    columns = {
        "QUEUE": lambda queue: queue.queue,
        "RUNNABLE": lambda queue: count(queue.runnable, queue),
        "OLDEST": lambda queue: relative(queue.runnable_since, look.at),
        "BLOCKED": lambda queue: count(queue.blocked, queue),
        "LIMITED": lambda queue: count(queue.limited, queue),
        "SCHEDULED": lambda queue: count(queue.scheduled, queue),
        "DOING": lambda queue: count(queue.doing, queue),
        "WORKERS": lambda queue: str(queue.workers),
    }
    if look.queues:
        click.echo()
        Output("table").records(look.queues, columns, "", ("SCHEDULED", "LIMITED", "OLDEST"))
    pauses: list[PausedQueue | PausedTask] = [*look.paused_queues, *look.paused_tasks]
    for pause in pauses:
        _say(f"paused: {explain_pause(pause, look.at)}", "red")
    for text in (*_find_unserved(look), *_find_endless(look)):
        _say(text, "red")


def _find_unserved(look: Look) -> Iterator[str]:
    """Yield a line for each queue and task that no worker can run."""
    for queue in look.queues:
        if is_unserved(queue):
            start = complete(f"queue worker --queues {option_value(queue.queue)}")
            yield f"no live worker serves queue {visible(queue.queue)}: {start}"
    for name, task in look.unknown_tasks:
        help = complete(advise_deployment(task))
        yield f"no live worker of queue {visible(name)} knows task {visible(task)}: {help}"


def _find_endless(look: Look) -> Iterator[str]:
    """Yield a line for each job or batch outside lanes that waits for a person."""
    for job in look.failed_parents:
        ask = complete(f"queue jobs explain {job.job_id}")
        what = f"job {job.job_id} {visible(job.task)} waits for job {job.parent_id}"
        yield f"{what}, which failed: {ask}"
    for batch in look.forgotten_batches:
        ask = complete(f"queue batches show {batch.id}")
        age = span(look.at - batch.opened_at)
        yield f"batch {batch.id} {visible(batch.name)} has been open for {age}: {ask}"


def _print_workers(look: Look) -> None:
    click.echo()
    if not look.workers:
        _say(complete("No worker is running. To start one: queue worker"), "red")
        return
    _say(f"workers: {_states(look.worker_states)}")
    columns = {
        "WORKER": lambda worker: worker.name,
        "STATE": lambda worker: worker.state,
        "DOING": lambda worker: f"{worker.doing}/{worker.concurrency}",
        "CLAIMED": lambda worker: str(worker.claimed),
        "QUEUES": lambda worker: "all" if worker.queues is None else ",".join(worker.queues),
        "HEARTBEAT": lambda worker: relative(min(worker.heartbeat_at, look.at), look.at),
    }
    Output("table").records(look.workers, columns, "", ("CLAIMED", "QUEUES"))
