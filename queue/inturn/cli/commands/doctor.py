"""Is everything well?"""

import click

from inturn.cli.database import Database, with_database
from inturn.cli.exit_status import UNHEALTHY
from inturn.cli.output import Output, advice, output_options


@click.command(
    "doctor",
    epilog="""\b
Examples:
  queue doctor
  queue doctor --json || echo "somebody should look"  """,
)
@output_options
@with_database
def command(database: Database, form: str) -> None:
    """Examine the queue, and say what to do.

    Exits with 10 if anything failed: work stands still that will not go on by itself, or should not have stood still. A
    warning alone is no failure.
    """
    from inturn.cli.doctor_checks import examine

    findings = list(examine(database))
    lines = [
        advice(f"{found.state:<5} {found.check:<13} ", found.detail, found.advice, "do")
        for found in findings
    ]
    Output(form).lines(findings, lines)
    if any(found.state == "fail" for found in findings):
        raise SystemExit(UNHEALTHY)
