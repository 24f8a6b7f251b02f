"""An app that makes spans, and OpenTelemetry's own SDK, which keeps them in memory."""

from collections.abc import Callable
from typing import Any

import pytest
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from inturn import App
from inturn.tracing import Tracing


class Spans:
    """The spans that have ended, and the provider whose they are."""

    def __init__(self) -> None:
        self.provider = TracerProvider()
        self._exporter = InMemorySpanExporter()
        self.provider.add_span_processor(SimpleSpanProcessor(self._exporter))

    def list(self, name: str | None = None) -> list[ReadableSpan]:
        """Return the spans in the order in which they began."""
        spans = [each for each in self._exporter.get_finished_spans() if name in (None, each.name)]
        return sorted(spans, key=lambda span: span.start_time or 0)

    def one(self, name: str) -> ReadableSpan:
        """Return the only span of this name."""
        [span] = self.list(name)
        return span


@pytest.fixture
def spans() -> Spans:
    return Spans()


@pytest.fixture
def trace(app: App, spans: Spans) -> Callable[..., App]:
    """Have the app make spans, as these options of `Tracing` say."""

    def trace(*options: Any, **more: Any) -> App:
        app.tracing = Tracing(*options, tracer_provider=spans.provider, **more)
        return app

    return trace
