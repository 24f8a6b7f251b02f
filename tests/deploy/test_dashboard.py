"""Each expression of the Grafana dashboard has an answer, from the real output of real processes."""

import json
import re
from datetime import timedelta
from pathlib import Path
from typing import Any

import anyio.to_thread
import pytest

from inturn import App, JobContext
from inturn.metrics.catalogue import METRICS
from tests.deploy.promtool import DEPLOY, as_series, evaluate
from tests.metrics.conftest import serve as serve
from tests.metrics.scrape import Samples
from tests.metrics.test_database import look

pytestmark = pytest.mark.anyio
DASHBOARD: dict[str, Any] = json.loads((DEPLOY / "grafana" / "inturn.json").read_text())
PANELS = [panel for panel in DASHBOARD["panels"] if panel["type"] != "row"]


def expressions() -> list[str]:
    return [target["expr"] for panel in PANELS for target in panel["targets"]]


def names_in(text: str) -> set[str]:
    return set(re.findall(r"\binturn_\w+", text))


async def scrape_both(app: App, dsn: str, serve: Any) -> tuple[Samples, Samples]:
    """Return what a worker and the exporter say after a job of each kind."""

    @app.task(name="work", pass_context=True)
    async def work(context: JobContext, how: str) -> None:
        if how == "fails":
            raise ValueError(how)
        if context.job.scheduled_at is None and how == "snoozes":
            context.snooze(timedelta(milliseconds=1))

    @app.periodic(cron="* * * * *")
    @app.task(name="tick")
    async def tick(timestamp: int) -> None: ...

    async with serve(app) as worker:
        for how in ("succeeds", "fails", "snoozes"):
            work.defer(how)
        work.configure(schedule_in={"hours": 1}).defer("later")
        ends = "inturn_jobs_finished_total"
        found = await worker.until(lambda samples: samples.of(ends, task="work") == 4)
        return found, await anyio.to_thread.run_sync(look, dsn)


@pytest.mark.landing
async def test_each_expression_has_an_answer_from_what_a_worker_and_the_exporter_say(
    app: App, dsn: str, serve: Any, tmp_path: Path
) -> None:
    scrapes = await scrape_both(app, dsn, serve)
    found = [
        each.replace("$queue", ".*").replace("$__rate_interval", "5m") for each in expressions()
    ]
    assert all("$" not in each for each in found)
    has_answer = [(f"count({each}) > bool 0", ["{}"]) for each in found]
    done = evaluate(tmp_path, as_series(*scrapes, counters_rise=True), has_answer)
    assert done.returncode == 0, done.stdout + done.stderr


async def test_each_metric_of_the_catalogue_is_in_what_they_say_and_nothing_else_is(
    app: App, dsn: str, serve: Any
) -> None:
    told = {}
    for samples in await scrape_both(app, dsn, serve):
        for family in samples.families:
            if family.name.startswith("inturn_"):
                name = f"{family.name}_total" if family.type == "counter" else family.name
                told[name] = family
    told = {name: each for name, each in told.items() if not name.endswith("_created")}
    assert told.keys() == METRICS.keys()
    for name, family in told.items():
        metric = METRICS[name]
        assert family.type == metric.kind
        assert family.documentation == metric.meaning.replace("`", "")
        labels = {label for sample in family.samples for label in sample.labels} - {"le"}
        assert labels <= set(metric.labels)
        assert family.samples == [] or labels == set(metric.labels), name


def test_the_dashboard_names_no_metric_that_is_not_in_the_catalogue_and_each_that_is() -> None:
    histograms = [name for name, metric in METRICS.items() if metric.kind == "histogram"]
    known = METRICS.keys() | {f"{name}_bucket" for name in histograms}
    variables = " ".join(str(each["query"]) for each in DASHBOARD["templating"]["list"])
    named = names_in(" ".join([variables, *expressions()]))
    assert named <= known
    shown = {name.removesuffix("_bucket") for name in named}
    assert METRICS.keys() - shown == {"inturn_build_info", "inturn_jobs_capped",
                                      "inturn_lanes_capped", "inturn_lanes_runnable",
                                      "inturn_schema_version", "inturn_schema_expected_version",
                                      "inturn_verify_timestamp_seconds"}  # fmt: skip


def test_the_panels_have_numbers_of_their_own_and_do_not_overlap() -> None:
    numbers = [panel["id"] for panel in DASHBOARD["panels"]]
    assert len(numbers) == len(set(numbers))
    taken: set[tuple[int, int]] = set()
    for panel in DASHBOARD["panels"]:
        at = panel["gridPos"]
        cells = {
            (x, y)
            for x in range(at["x"], at["x"] + at["w"])
            for y in range(at["y"], at["y"] + at["h"])
        }
        assert at["x"] + at["w"] <= 24
        assert not taken & cells, panel["title"]
        taken |= cells


def test_the_exporter_is_asked_for_its_address_only_through_the_variable() -> None:
    assert {panel["datasource"]["uid"] for panel in PANELS} == {"${datasource}"}


def test_no_label_is_an_id_or_a_lock_or_a_host() -> None:
    labels = {label for metric in METRICS.values() for label in metric.labels}
    allowed = {
        "queue",
        "task",
        "state",
        "outcome",
        "result",
        "source",
        "schedule",
        "table",
        "cause",
    }
    assert labels <= allowed | {"version", "schema"}
