"""`queue bench`: measure how fast the queue is on your server."""

import click

from inturn.cli.output.printing import Output, output_options
from inturn.cli.output.progress_bar import show_progress
from inturn.cli.settings import (
    Settings,
    app_option,
    dsn_option,
    find_connector,
    pass_settings,
    verbose_option,
)


@click.command("bench", epilog="Example: queue bench --dsn postgresql://…")
@click.option("--quick", is_flag=True, help="Use a tenth of the jobs.")
@output_options
@app_option
@dsn_option
@verbose_option
@pass_settings
def command(settings: Settings, /, quick: bool, form: str) -> None:
    """Measure how fast the queue is on your server.

    Runs jobs that do nothing, with one worker, in a schema that it drops at the end. It takes about
    ten seconds. Your jobs are not touched, but they share the busy server.
    """
    from inturn.cli.bench_trials import MEASUREMENTS, Measured, measure, scratch

    found: list[Measured] = []
    with scratch(find_connector(settings)) as app, show_progress(counts=True) as advance:
        for measured in measure(app, 0.1 if quick else 1):
            found.append(measured)
            advance(len(found), MEASUREMENTS)
    columns = {
        "": lambda measured: measured.what,
        "VALUE": lambda measured: (
            f"{measured.value:,.0f}" if measured.value >= 100 else f"{measured.value:.2f}"
        ),
        "UNIT": lambda measured: measured.unit,
    }
    Output(form).records(found, columns, "")
