"""`queue batches`, `queue defer --batch` and `queue jobs list --batch`."""

import json

from inturn import App
from tests.cli.conftest import Run


def test_a_batch_is_listed_shown_closed_and_explained(queue: Run, app: App) -> None:
    assert "No batches." in queue("batches", "list").stderr
    batch = app.batches.open("import", callback=app.configure_task("far.away"))
    job = queue("defer", "far.away", "--batch", str(batch), "--lock", "a").stdout.strip()
    other = queue("defer", "far.away").stdout.strip()
    [listed] = json.loads(queue("batches", "list", "--json").stdout)
    assert (listed["id"], listed["state"], listed["total"]) == (str(batch), "open", 1)
    assert "import" in queue("batches", "list").stdout
    callback = str(listed["callback_id"])
    explained = queue("jobs", "explain", callback).stdout
    assert f"queue batches close {batch}" in explained
    assert f"waits for job {job}" in explained
    shown = queue("batches", "show", str(batch))
    assert "remaining  1" in shown.stdout
    assert f"queue batches close {batch}" in shown.stderr
    queue("batches", "close", str(batch))
    assert json.loads(queue("batches", "show", str(batch), "--json").stdout)["state"] == "closed"
    again = queue("batches", "close", str(batch))
    assert (again.returncode, "is already closed" in again.stderr) == (4, True)
    found = json.loads(queue("jobs", "list", "--batch", str(batch), "--json").stdout)
    assert {each["id"] for each in found} == {job, callback}
    assert other not in {each["id"] for each in found}
    assert json.loads(queue("jobs", "show", job, "--json").stdout)["batch_id"] in (
        batch,
        str(batch),
    )
    assert "batch  " in queue("jobs", "show", job).stdout


def test_the_jobs_of_a_batch_and_of_a_group_are_listed_and_counted(queue: Run, app: App) -> None:
    batch = app.batches.open("import")
    mine = app.configure_task("far.away", batch=batch, group="tenant:7", limit="stripe").defer()
    for group in ("tenant:7", "tenant:8"):
        app.configure_task("far.away", group=group).defer()
    for options, count in (
        (("--batch", str(batch)), 1),
        (("--group", "tenant:7"), 2),
        (("--group", "tenant:7", "--batch", str(batch)), 1),
        (("--group", "tenant:8", "--batch", str(batch)), 0),
    ):
        for status, share in (((), 1), (("--status", "todo"), 1), (("--status", "pending"), 0)):
            found = json.loads(queue("jobs", "list", *options, *status, "--json").stdout)
            counted = json.loads(queue("jobs", "count", *options, *status, "--json").stdout)
            assert (len(found), counted["count"]) == (count * share, count * share), options
    [listed] = json.loads(queue("jobs", "list", "--batch", str(batch), "--json").stdout)
    assert (listed["id"], listed["batch_id"]) == (str(mine), str(batch))
    assert (listed["group_key"], listed["limit_key"]) == ("tenant:7", "stripe")
    cut = queue("jobs", "list", "--group", "tenant:7", "--limit", "1").stderr
    assert "1 more" in cut
    queue("jobs", "cancel", "--yes", str(mine))
    for options in (("--batch", str(batch)), ("--group", "tenant:7")):
        ended = queue("jobs", "list", *options, "--status", "cancelled", "--json").stdout
        assert [each["id"] for each in json.loads(ended)] == [str(mine)]


def test_a_batch_is_cancelled_after_a_question(queue: Run, app: App) -> None:
    batch = str(app.batches.open("import", callback=app.configure_task("far.away")))
    for _ in range(3):
        queue("defer", "far.away", "--batch", batch)
    refused = queue("batches", "cancel", batch)
    assert refused.returncode == 2
    assert f"queue batches cancel --yes {batch}" in refused.stderr
    done = queue("batches", "cancel", "--yes", batch)
    assert "4 jobs cancelled" in done.stderr
    shown = json.loads(queue("batches", "show", batch, "--json").stdout)
    assert (shown["remaining"], shown["cancelled"]) == (0, 3)


def test_a_batch_that_does_not_exist_is_not_found(queue: Run) -> None:
    for name in ("show", "close", "cancel"):
        ended = queue("batches", name, "7")
        assert (ended.returncode, "Batch 7 does not exist" in ended.stderr) == (3, True)
    ended = queue("defer", "far.away", "--batch", "7")
    assert (ended.returncode, "batch" in ended.stderr) == (2, True)
