# syntax=docker/dockerfile:1
# An image with the command line: `docker run inturn worker`. It runs as a user without rights.
# docs/deploy.md says how to add your app to it.

FROM python:3.13-slim-trixie AS base
ENV PATH=/opt/inturn/bin:$PATH \
    PYTHONDONTWRITEBYTECODE=1 \
    PYTHONUNBUFFERED=1

FROM base AS build
WORKDIR /src
# The environment has no pip of its own: the one of this stage fills it.
RUN python -m venv --without-pip /opt/inturn
COPY requirements/build.txt requirements/image.txt requirements/
RUN python -m pip --python /opt/inturn install --no-cache-dir --no-compile --require-hashes \
      -r requirements/image.txt \
    && python -m venv /opt/build \
    && /opt/build/bin/python -m pip install --no-cache-dir --require-hashes -r requirements/build.txt
# After the requirements, which change less often.
COPY pyproject.toml README.md LICENSE ./
COPY queue queue
COPY sql sql
COPY migrations migrations
RUN /opt/build/bin/python -m pip wheel --no-cache-dir --no-deps --no-build-isolation \
      --wheel-dir /opt/wheels . \
    && python -m pip --python /opt/inturn install --no-cache-dir --no-deps /opt/wheels/*.whl \
    && python -m compileall -q /opt/inturn

FROM base
RUN useradd --uid 10001 --create-home --shell /usr/sbin/nologin inturn
COPY --from=build /opt/inturn /opt/inturn
WORKDIR /app
# By number, so that Kubernetes can see that it is not root.
USER 10001:10001
# The worker and the health check read this. Other commands ignore it.
ENV INTURN_WORKER_HEALTH_PORT=8081
HEALTHCHECK --interval=15s --timeout=5s --start-period=30s CMD ["queue", "health", "live"]
# Without a shell, so that the signal to stop reaches the worker.
STOPSIGNAL SIGTERM
ENTRYPOINT ["queue"]
CMD ["worker"]
