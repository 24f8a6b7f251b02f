"""Each action of the dashboard has a span: who did what, and what came of it."""

import pytest
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from starlette.testclient import TestClient

from inturn import App
from inturn.tracing import Tracing
from tests.conftest import Query
from tests.web.conftest import EMPTY
from tests.web.test_audit import Scene, post


@pytest.fixture
def scene(app: App, query: Query) -> Scene:
    return Scene(app, query)


@pytest.fixture
def spans(app: App) -> InMemorySpanExporter:
    exporter, provider = InMemorySpanExporter(), TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    app.tracing = Tracing(tracer_provider=provider)
    return exporter


def test_an_action_has_a_span(
    client: TestClient, scene: Scene, spans: InMemorySpanExporter
) -> None:
    for path in ("/lane/pause", "/jobs/{job_id}/cancel", "/limits/set", "/batches/close"):
        post(client, scene, path)
    found = [(span.name, dict(span.attributes or {})) for span in spans.get_finished_spans()]
    ana = {"user.name": "ana"}
    assert [each for each in found if each[0].startswith("change")] == [
        ("change lane pause", {**ana, "inturn.lock": "a", "inturn.outcome": "paused"}),
        (
            "change jobs cancel",
            {**ana, "messaging.message.id": str(scene.waiting), "inturn.outcome": "job-cancelled"},
        ),
        ("change limits set", {**ana, "inturn.limit": "new", "inturn.outcome": "limit-set"}),
        (
            "change batches close",
            {**ana, "inturn.batch": str(scene.batch), "inturn.outcome": "batch-closed"},
        ),
    ]


@pytest.mark.parametrize("address", ["/lane/pause?lock=h", "/jobs/4711/cancel", "/lane/pause"])
def test_an_action_that_is_refused_is_no_error(
    client: TestClient, scene: Scene, spans: InMemorySpanExporter, address: str
) -> None:
    assert client.post(address, data=EMPTY).status_code == 409
    [span] = [each for each in spans.get_finished_spans() if each.name.startswith("change")]
    assert (span.attributes or {})["inturn.outcome"] == "refused"
    assert span.status.is_unset


def test_an_action_that_breaks_is_an_error(
    client: TestClient, spans: InMemorySpanExporter, monkeypatch: pytest.MonkeyPatch
) -> None:
    def break_down(*_: object) -> None:
        raise RuntimeError("broken")

    monkeypatch.setattr("inturn.operations.changes.lanes.pause_lane", break_down)
    with pytest.raises(RuntimeError, match="broken"):
        client.post("/lane/pause?lock=a", data=EMPTY)
    [span] = spans.get_finished_spans()
    assert not span.status.is_ok
    assert [event.name for event in span.events] == ["exception"]
