"""`queue doctor`: check the queue."""

from dataclasses import replace

import click

from inturn.cli.database import Database, with_database
from inturn.cli.output.exit_status import UNHEALTHY
from inturn.cli.output.next_command import complete
from inturn.cli.output.printing import Output, advice, output_options
from inturn.cli.settings import Settings
from inturn.doctor.finding import Finding


@click.command(
    "doctor",
    epilog="""\b
Examples:
  queue doctor
  queue doctor -v
  queue doctor --json || echo "the queue needs attention"  """,
)
@output_options
@with_database
def command(database: Database, form: str) -> None:
    """Check the queue, and print each problem with a remedy, the worst first.

    With -v, print every check.

    Exits with status 10 if a check fails: something is stuck and will not recover by itself, or
    was stuck when it should not have been. Warnings do not count as failures.
    """
    from inturn.doctor.checks import examine

    findings = [
        replace(found, advice=found.advice and complete(found.advice))
        for found in examine(database)
    ]
    verbose = click.get_current_context().ensure_object(Settings).verbose
    Output(form).lines(findings, _list_all(findings) if verbose else _list_problems(findings))
    if any(found.state == "fail" for found in findings):
        raise SystemExit(UNHEALTHY)


def _list_all(findings: list[Finding]) -> list[str]:
    return [
        advice(f"{found.state:<5} {found.check:<13} ", found.detail, found.advice, "do")
        for found in findings
    ]


def _list_problems(findings: list[Finding]) -> list[str]:
    """Return the problems, the worst first, and how many checks are fine."""
    problems = [found for state in ("fail", "warn") for found in findings if found.state == state]
    fine = len(findings) - len(problems)
    others = "other " if problems else ""
    count = [f"ok    {fine} {others}checks (-v lists them)"] if fine else []
    return _list_all(problems) + count
