"""promtool, which loads and evaluates rules and expressions as Prometheus does."""

import json
import shutil
import subprocess
from collections.abc import Iterable
from pathlib import Path

import pytest

from tests.metrics.scrape import Samples

DEPLOY = Path(__file__).parents[2] / "deploy"
RULES = DEPLOY / "prometheus" / "alerts.yml"
MINUTES = 120


def promtool(*arguments: str, folder: Path = RULES.parent) -> subprocess.CompletedProcess[str]:
    program = shutil.which("promtool")
    if program is None:
        pytest.fail("promtool is not installed. On Debian: apt-get install prometheus")
    return subprocess.run(
        [program, *arguments], cwd=folder, capture_output=True, text=True, timeout=60, check=False
    )


def as_series(*scrapes: Samples, counters_rise: bool) -> list[dict[str, str]]:
    """Return what was scraped as series of two hours, in which at most counters change."""
    found = {}
    for family in (family for samples in scrapes for family in samples.families):
        for sample in family.samples:
            labels = ",".join(
                f"{name}={json.dumps(value, ensure_ascii=False)}"
                for name, value in sample.labels.items()
            )
            rises = int(counters_rise and family.type != "gauge")
            found[f"{sample.name}{{{labels}}}"] = f"{sample.value:f}+{rises}x{MINUTES}"
    return [{"series": series, "values": values} for series, values in found.items()]


def evaluate(
    folder: Path, series: list[dict[str, str]], expected: Iterable[tuple[str, list[str]]]
) -> subprocess.CompletedProcess[str]:
    """Compare each expression after 100 minutes with the labels that have the value 1."""
    tests = [
        {
            "expr": expression,
            "eval_time": "100m",
            "exp_samples": [{"labels": each, "value": 1} for each in labels],
        }
        for expression, labels in expected
    ]
    unit_test = {
        "rule_files": [str(RULES)],
        "evaluation_interval": "1m",
        "tests": [{"interval": "1m", "input_series": series, "promql_expr_test": tests}],
    }
    (folder / "test.yml").write_text(json.dumps(unit_test))  # JSON is YAML
    return promtool("test", "rules", "test.yml", folder=folder)


def assert_firing(folder: Path, alerts: set[str], *scrapes: Samples) -> None:
    """Check that exactly these alerts fire if it goes on like this for two hours."""
    expression = 'count by (alertname) (ALERTS{alertstate="firing"}) > bool 0'
    labels = [f'{{alertname="{alert}"}}' for alert in sorted(alerts)]
    done = evaluate(folder, as_series(*scrapes, counters_rise=False), [(expression, labels)])
    assert done.returncode == 0, done.stdout + done.stderr
