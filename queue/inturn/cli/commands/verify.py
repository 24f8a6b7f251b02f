"""`queue verify`: judge whether the queue has kept its promises."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING

import click

from inturn.cli.bulk.change import words
from inturn.cli.database import Database, with_database
from inturn.cli.output.exit_status import UNHEALTHY
from inturn.cli.output.next_command import complete
from inturn.cli.output.printing import Output, advice, output_options, remark
from inturn.cli.output.progress_bar import show_progress
from inturn.cli.values import Number, duration_option
from inturn.formatting import amount, exact, visible

if TYPE_CHECKING:
    from inturn.operations.reading.verify import Deviation, Place, Verification


@click.command(
    "verify",
    epilog="""\b
Examples:
  queue verify --since 24h
  queue verify --lock order:4711
  queue verify --since 7d --json > verified.json""",
)
@duration_option(
    "--since", help="Judge jobs that ended in this time. By default, the whole history."
)
@click.option("--lock", metavar="LOCK", help="Judge only this lane.")
@duration_option(
    "--longest-transaction",
    "transaction",
    default="1m",
    show_default=True,
    help="How long a transaction that defers jobs may stay open. Within this time, jobs may start "
    "out of order.",
)
@duration_option(
    "--longest-call",
    "call",
    default="5s",
    show_default=True,
    help="How long a worker's call to the database may take.",
)
@click.option(
    "--after",
    type=Number(0, name="id"),
    default=0,
    help="Continue after this job, as an interrupted call advises.",
)
@output_options
@with_database
def command(
    database: Database,
    since: timedelta | None,
    lock: str | None,
    transaction: timedelta,
    call: timedelta,
    after: int,
    form: str,
) -> None:
    """Judge from the history whether the queue has kept its promises.

    Print each violation, how often and why jobs started out of order, and what the history does
    not tell. It reads all jobs that ended in the given time, and those that live.

    Exits with status 10 if a promise was broken.
    """
    from inturn.operations.reading.verify import verify

    latest: Place | None = None

    def watch(at: Place) -> None:
        nonlocal latest
        latest = at
        advance(at.reached - at.first, max(1, at.last - at.first))

    try:
        with show_progress(counts=False) as advance:
            judge = verify(
                since, lock, call=call, transaction=transaction, after=after, watch=watch
            )
            found = database.run(judge)
    except BaseException:  # such as Ctrl-C, SIGTERM, or a lost connection
        if latest is not None:
            Output(form).record(latest.found, *_describe(latest.found))
            options = [
                ("--since", since and exact(since)),
                ("--lock", lock),
                ("--longest-transaction", exact(transaction)),
                ("--longest-call", exact(call)),
                ("--after", latest.resume_after),
            ]
            again = complete(" ".join(words("queue verify", options)))
            remark(f"Interrupted. To continue: {again}")
        raise
    Output(form).record(found, *_describe(found))
    if not found.is_kept:
        raise SystemExit(UNHEALTHY)


def _describe(found: Verification) -> list[str]:
    lines = [_describe_violation(each) for each in found.broken]
    if found.violations > len(found.broken):
        lines.append(f"broken  {found.violations - len(found.broken):,} more violations")
    for verdict, observed in (("allowed", found.allowed), ("unsure", found.unsure)):
        lines += [_describe_count(verdict, each) for each in observed]
    lines += [advice(f"{'unknown':<8}", text, None, "") for text in found.unknown]
    result = "no promise was broken" if found.is_kept else amount(found.violations, "violation")
    state = "ok" if found.is_kept else "broken"
    return [*lines, f"{state:<8}{amount(found.jobs, 'job')} read: {result}"]


def _describe_violation(each: Deviation) -> str:
    lane = f" (lane {visible(each.lock)})" if each.lock else ""
    return advice(
        f"{'broken':<8}{each.promise:<8}", f"job {each.job_id}{lane} {each.seen}", None, ""
    )


def _describe_count(verdict: str, each: Deviation) -> str:
    example = f"job {each.job_id}" + (f" and {each.other_id}" if each.other_id else "")
    text = f"{each.reason}: {amount(each.jobs, 'job')}, for example {example}"
    return advice(f"{verdict:<8}{each.promise:<8}", text, None, "")
