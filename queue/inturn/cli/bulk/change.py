"""A bulk change of jobs or lanes: preview, confirmation, progress and report."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import click

from inturn.cli.arguments.confirm import confirm
from inturn.cli.output import exit_status
from inturn.cli.output.next_command import complete
from inturn.cli.output.printing import Output, remark
from inturn.cli.output.progress_bar import show_progress
from inturn.cli.settings import combine
from inturn.formatting import amount, option_value
from inturn.operations.changes.bulk import Bulk, Watch
from inturn.operations.changes.bulk_effect import PAST, REASONS

bulk_options = combine(
    click.option("--all", "everything", is_flag=True, help="Required if you give no filter."),
    click.option("--dry-run", is_flag=True, help="Show what would change, and exit."),
)


def is_bulk_of(names: str, filters: str, asked: Mapping[str, Any], *, named: bool) -> bool:
    """Return True if the options select what to change, and False if the arguments name it."""
    given = any(value for name, value in asked.items() if name != "dry_run")
    if named and (given or asked["dry_run"]):
        raise click.UsageError(f"Give either {names} or filters.")
    if not named and not given:
        raise click.UsageError(f"Give {names} or filters: {filters} or --all.")
    return not named


@dataclass(frozen=True)
class PlannedBulk:
    """A bulk change before it starts."""

    action: str
    noun: str  # job or lane
    preview: Any  # has `count` and `more`
    question: str
    effect: Sequence[str]  # how it affects the order, in sentences
    sample: Sequence[str]
    command: Sequence[str]  # finishes the rest after an interruption

    @property
    def count(self) -> str:
        return amount(self.preview.count, self.noun, or_more=self.preview.more)


def run_bulk(
    plan: PlannedBulk, change: Callable[[Bulk, Watch], Bulk], form: str, *, dry_run: bool, yes: bool
) -> None:
    """Show the plan, ask, change, and report. `change` adds up in the Bulk what it has done."""
    if dry_run:
        lines = [f"Would have {PAST[plan.action]} {plan.count}.", *plan.effect, *plan.sample]
        shown = {"action": plan.action, "preview": plan.preview, "effect": list(plan.effect)}
        Output(form).record(shown, *map(complete, lines))
        return
    if not plan.preview.count:
        remark(f"No {plan.noun} matches. Nothing was changed.")
        Output(form).record({"action": plan.action, "changed": 0, "asked": 0, "refused": {}})
        return
    if not yes:
        for line in (*plan.effect, *plan.sample):
            remark(complete(line))
    again = complete(" ".join(plan.command))
    confirm(plan.question, yes=yes, command=again)
    _report(plan, _watched(plan, change, again), form)


def _watched(plan: PlannedBulk, change: Callable[[Bulk, Watch], Bulk], again: str) -> Bulk:
    """Run the bulk with a progress bar. If something ends it early, report how much is done."""
    done = Bulk()
    total = None if plan.preview.more else plan.preview.count
    try:
        with show_progress(counts=True) as advance:
            return change(done, lambda _: advance(done.looked_at, total))
    except BaseException:  # such as Ctrl-C, SIGTERM, or a lost connection
        changed = amount(done.changed + done.asked, plan.noun)
        remark(f"Interrupted: {changed} of {plan.count} done. To do the rest: {again}")
        raise


def _report(plan: PlannedBulk, done: Bulk, form: str) -> None:
    refused = dict(done.refused)
    lines = [f"{PAST[plan.action]} {amount(done.changed, plan.noun)}"]
    if done.asked:
        lines.append(f"asked workers to end {amount(done.asked, plan.noun)}")
    Output(form).record(
        {"action": plan.action, "changed": done.changed, "asked": done.asked, "refused": refused},
        *lines,
    )
    for reason, count in sorted(refused.items()):
        why = REASONS.get(reason, reason)
        remark(f"{amount(count, plan.noun)} left: {why} ({reason})")
    if refused:
        some = done.changed + done.asked
        raise SystemExit(exit_status.PARTLY if some else exit_status.CONFLICT)


def words(command: str, options: Sequence[tuple[str, Any]]) -> list[str]:
    """Return a command to copy, with the options that have a value."""
    found = [command]
    for name, value in options:
        if value is True:
            found.append(name)
        elif value is not None and value is not False:
            found += [name, option_value(str(value))]
    return found
