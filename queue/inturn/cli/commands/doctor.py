"""`queue doctor`: check the queue."""

from dataclasses import replace

import click

from inturn.cli.database import Database, with_database
from inturn.cli.output.exit_status import UNHEALTHY
from inturn.cli.output.next_command import complete
from inturn.cli.output.printing import Output, advice, output_options


@click.command(
    "doctor",
    epilog="""\b
Examples:
  queue doctor
  queue doctor --json || echo "the queue needs attention"  """,
)
@output_options
@with_database
def command(database: Database, form: str) -> None:
    """Check the queue, and print a remedy for each problem.

    Exits with status 10 if a check fails: something is stuck and will not recover by itself, or
    was stuck when it should not have been. Warnings do not count as failures.
    """
    from inturn.doctor.checks import examine

    findings = [
        replace(found, advice=None if found.advice is None else complete(found.advice))
        for found in examine(database)
    ]
    lines = [
        advice(f"{found.state:<5} {found.check:<13} ", found.detail, found.advice, "do")
        for found in findings
    ]
    Output(form).lines(findings, lines)
    if any(found.state == "fail" for found in findings):
        raise SystemExit(UNHEALTHY)
