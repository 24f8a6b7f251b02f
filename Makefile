# Everything here works in a fresh checkout. You only need Python 3.11 or later.
PYTHON ?= python3
python := .venv/bin/python
PARALLEL := -n logical --dist worksteal --durations 20
# One test that takes long.
ALONE := -q -o faulthandler_timeout=0
export PIP_DISABLE_PIP_VERSION_CHECK := 1
# Some images set it. Then each process compiles all modules anew.
unexport PYTHONDONTWRITEBYTECODE

.DEFAULT_GOAL := help
.PHONY: help demo test proof stress fair-shares graph chaos witness check bench bench-surface
.PHONY: bench-contention bench-flow bench-growth bench-neighbours bench-public bench-reads
.PHONY: bench-scale schema docs
.PHONY: patroni recording screenshots wheel-demo lock locked clean

help: ## list these commands
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-13s %s\n", $$1, $$2 }' Makefile

demo: .venv/installed ## watch locks keep four alphabets in order (ten seconds)
	@.venv/bin/queue demo

# TESTS="tests/race -k retry" runs some. CHANGED=main runs what your changes since main can break.
# WEIGH=1 writes down what the tests cost now, in counts (see tests/weight.py).
test: .venv/installed ## run the quick tests on an embedded PostgreSQL (ten minutes)
	@$(python) -m pytest $(or $(TESTS),$(PARALLEL) \
	  $(if $(CHANGED),--changed $(CHANGED),--weigh $(if $(WEIGH),write,compare)))

proof: .venv/installed build/docs-tools/installed ## run every test: also mutants, models, faults, the browser (half an hour)
	@INTURN_TEST_BROWSER=1 $(python) -m pytest --proof $(PARALLEL)

# A part of `make proof`, for longer. A seed repeats the random choices, but not the timing.
# Use SECONDS=600 and SEED=... to choose.
stress: .venv/installed ## run everything at once for ten minutes, then grow to a million jobs
	@INTURN_STRESS_SECONDS=$(or $(SECONDS),600) INTURN_STRESS_SEED=$(SEED) \
	  $(python) -m pytest $(ALONE) tests/stress/test_stress.py
	@INTURN_TEST_GROWTH=1000000 $(python) -m pytest $(ALONE) tests/sql/test_growth.py

# `make proof` has 20,000 jobs in front. Use FLOOD=... for another number.
fair-shares: .venv/installed ## run nine tenants behind one with a million jobs
	@INTURN_FAIR_FLOOD=$(or $(FLOOD),1000000) $(python) -m pytest $(ALONE) -s tests/stress/test_fair_shares.py

# `make proof` runs some hundred. Use JOBS=10000 and SEED=... to choose.
graph: .venv/installed ## run 10,000 jobs that come after others, and kill their workers
	@INTURN_GRAPH_JOBS=$(or $(JOBS),10000) INTURN_GRAPH_SEED=$(SEED) \
	  $(python) -m pytest $(ALONE) tests/stress/test_graph.py

patroni: .venv/installed ## fail over three nodes under Patroni (names missing Debian packages)
	@$(python) -m tests.failover.patroni

# `make test` has a short form. Use SECONDS=600, SEED=..., and ONLY="a worker is killed" for one
# kind of fault.
chaos: .venv/installed ## inflict faults of every kind for ten minutes, and judge the history
	@$(python) -m tests.chaos --seconds $(or $(SECONDS),600) $(if $(SEED),--seed "$(SEED)") \
	  $(if $(ONLY),--only "$(ONLY)")

check: .venv/installed ## check lint, format, types and layers
	@echo "ruff check"   && $(python) -m ruff check --quiet
	@echo "ruff format"  && $(python) -m ruff format --check --quiet
	@echo "mypy"         && $(python) -m mypy
	@echo "lint-imports" && .venv/bin/lint-imports --no-logo

# QUICK=1 takes a minute, for trying it out. ROUNDS, ONLY (rows), PEERS and ROWS (share of the jobs)
# choose what to run. ANALYSED (never, empty, full) says when the tables are analysed. INTURN_SOURCE
# names another checkout to measure, and BASE one to compare it with.
bench: bench/.venv/installed bench/node_modules/installed ## compare with other queues (an hour)
	@bench/.venv/bin/python -m bench $(if $(QUICK),--quick) $(if $(ROUNDS),--rounds $(ROUNDS)) \
	  $(if $(ONLY),--only $(ONLY)) $(if $(PEERS),--peers "$(PEERS)") $(if $(ROWS),--share $(ROWS)) \
	  $(if $(ANALYSED),--analysed $(ANALYSED))

# QUICK=1 takes some minutes, for trying it out. ROUNDS, ONLY (shapes and selections, such as
# ONLY=bars or ONLY=1000x10,10000x2/4w), PEERS, COLD=1 and PATIENCE choose what to run. LIST=1 only
# lists it.
bench-surface: bench/.venv/installed bench/node_modules/installed ## measure all shapes of lanes
	@bench/.venv/bin/python -m bench.surface $(if $(QUICK),--quick) $(if $(LIST),--list) \
	  $(if $(ROUNDS),--rounds $(ROUNDS)) $(if $(ONLY),--only "$(ONLY)") \
	  $(if $(PEERS),--peers "$(PEERS)") $(if $(COLD),--cold) $(if $(PATIENCE),--patience $(PATIENCE))

# QUICK=1 takes some minutes. ROUNDS, ONLY (rows), PEERS and ROWS work as in `make bench`.
bench-flow: bench/.venv/installed bench/node_modules/installed ## measure limits, groups and batches
	@bench/.venv/bin/python -m bench --flow $(if $(QUICK),--quick) \
	  $(if $(ROUNDS),--rounds $(ROUNDS)) $(if $(ONLY),--only $(ONLY)) \
	  $(if $(PEERS),--peers "$(PEERS)") $(if $(ROWS),--share $(ROWS))

# FULL=1 means ten million finished jobs.
bench-growth: bench/.venv/installed ## measure what calls cost as the tables grow
	@bench/.venv/bin/python -m bench.growth $(if $(QUICK),--quick) $(if $(FULL),--full) \
	  $(if $(ONLY),--only $(ONLY))

# THEIRS names a checkout of it, and RUN has the options of its harness: see bench/public/README.md.
bench-public: bench/.venv/public bench/node_modules/installed ## run the public benchmark of queues
	@bench/.venv/bin/python -m bench.public $(THEIRS) run $(RUN)

bench-reads: .venv/installed ## measure the pages that views, metrics and lists touch at full size
	@$(python) -m tests.sql.reads $(if $(QUICK),--quick)

bench-scale: bench/.venv/installed ## measure throughput, and where a job's time goes
	@bench/.venv/bin/python -m bench.scale $(if $(ROUNDS),--rounds $(ROUNDS))
	@bench/.venv/bin/python -m bench.handover
	@bench/.venv/bin/python -m bench.parts

# On two cores, one round takes about twenty minutes.
bench-contention: bench/.venv/installed ## see what 1 to 64 workers of a server wait for
	@bench/.venv/bin/python -m bench.contention $(if $(ROUNDS),--rounds $(ROUNDS))

# One round takes about six minutes.
bench-neighbours: bench/.venv/installed ## see what crowds of other queues cost a worker
	@bench/.venv/bin/python -m bench.neighbours $(if $(ROUNDS),--rounds $(ROUNDS))

schema: .venv/installed ## regenerate sql/tables.sql from the migrations
	@$(python) tests/snapshot.py

docs: .venv/installed build/docs-tools/installed ## regenerate pages from the code, and build docs/ into build/docs
	@$(python) -m tests.reference
	@$(python) -m tests.commands_page
	@$(python) -m tests.views_page
	@$(python) -m tests.metrics_page
	@$(python) -m tests.events_page
	@build/docs-tools/bin/python -m sphinx -q -W --keep-going -n docs build/docs
	@echo "built build/docs/index.html"

screenshots: .venv/installed ## make the pictures of the dashboard in docs/images (needs Chromium)
	@$(python) -m tests.web.screenshots

recording: .venv/installed ## record the demo into docs/images/demo.svg (ten seconds)
	@$(python) -m tests.cli.recording

witness: .venv/installed ## look for overlaps of locks under load (30 s for each kind)
	@INTURN_WITNESS_PROCESSES=8 INTURN_WITNESS_SECONDS=30 \
	  $(python) -m pytest tests/locks/test_witness.py -s -k nobody

# A wheel may lack files that a checkout has, so CI tries the wheel in a fresh environment and an
# empty folder. LOCKED=1 installs what requirements/demo.txt pins, and `pip check` compares that
# with what the wheel requires.
wheel-demo: .venv/installed ## build the wheel and run the demo from it
	@set -e; tmp=$$(mktemp -d); trap 'rm -rf "$$tmp"' EXIT; mkdir "$$tmp/empty"; \
	echo "building the wheel"; \
	$(python) -m pip wheel -q . --no-deps $(if $(LOCKED),--no-build-isolation) --wheel-dir "$$tmp"; \
	wheel=$$(ls "$$tmp"/*.whl); \
	echo "installing $$(basename "$$wheel") into a fresh environment"; \
	$(python) -m venv "$$tmp/venv"; pip="$$tmp/venv/bin/python -m pip"; \
	if [ -n "$(LOCKED)" ]; then \
	  $$pip install -q --require-hashes -r requirements/demo.txt; \
	  $$pip install -q --no-deps "$$wheel"; $$pip check; \
	else $$pip install -q "$${wheel}[dev]"; fi; \
	cd "$$tmp/empty"; "$$tmp/venv/bin/queue" demo

# This names no registry: pip and uv have settings for that. SSL_CERT_FILE names certificates to uv.
lock: ## resolve what CI and the image install, into requirements/*.txt
	@set -e; tmp=$$(mktemp -d); trap 'rm -rf "$$tmp"' EXIT; \
	$(PYTHON) -m venv "$$tmp"; "$$tmp/bin/python" -m pip install -q uv; \
	compile() { "$$tmp/bin/uv" pip compile -q --upgrade --universal --python-version 3.11 \
	  --generate-hashes --no-header --no-emit-index-url "$$@"; }; \
	compile pyproject.toml requirements/build.in requirements/audit.in requirements/test.in \
	  --all-extras -o requirements/ci.txt; \
	compile pyproject.toml requirements/build.in -c requirements/ci.txt --extra dev \
	  -o requirements/demo.txt; \
	compile requirements/build.in -c requirements/ci.txt -o requirements/build.txt; \
	compile requirements/docs.in -c requirements/ci.txt -o requirements/docs.txt; \
	compile pyproject.toml -c requirements/ci.txt --extra cli --extra metrics --extra migrate \
	  --extra redis --extra web -o requirements/image.txt

locked: ## prepare .venv with exactly what requirements/ci.txt pins, as CI does
	@test -x $(python) || $(PYTHON) -m venv .venv
	@$(python) -m pip install -q --require-hashes -r requirements/ci.txt
	@$(python) -m pip install -q --no-deps --no-build-isolation -e .
	@touch .venv/installed

clean: ## remove the environment and every cache
	@rm -rf .venv bench/.venv bench/node_modules build dist \
	  .pytest_cache .mypy_cache .ruff_cache .import_linter_cache .hypothesis
	@find queue tests migrations -name __pycache__ -type d -prune -exec rm -rf {} + 2>/dev/null || true

# The stamp is written last, so that make repeats an interrupted installation. We use `command -v`
# because a Python that is started by its bare name and without a PATH does not know where it is,
# and then cannot create an environment.
.venv/installed: pyproject.toml requirements/test.in
	@python=$$(command -v "$(PYTHON)") && \
	  "$$python" -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { \
	  echo "inturn needs Python 3.11 or later, but $(PYTHON) is older." \
	    "Name another: make PYTHON=python3.12" >&2; exit 1; }; \
	echo "preparing .venv (once, about a minute)" && \
	{ test -x $(python) || "$$python" -m venv .venv; } && \
	$(python) -m pip install -q -e '.[dev,django,metrics,openlock,otel,redis,testing,web]' -r requirements/test.in && \
	touch $@

# The tools that build docs/ have an environment of their own, so that `make test` does not wait for
# them. LOCKED=1 installs what requirements/docs.txt pins.
build/docs-tools/installed: requirements/docs.in requirements/docs.txt
	@echo "preparing build/docs-tools (once, half a minute)"
	@test -x build/docs-tools/bin/python || $(PYTHON) -m venv build/docs-tools
	@build/docs-tools/bin/python -m pip install -q \
	  -r requirements/docs.$(if $(LOCKED),txt --require-hashes,in)
	@touch $@

# The other queues stay out of our own environment, because we only measure them.
bench/.venv/installed: pyproject.toml bench/requirements.txt
	@echo "preparing bench/.venv (once, about a minute)"
	@test -x bench/.venv/bin/python || $(PYTHON) -m venv bench/.venv
	@bench/.venv/bin/python -m pip install -q -r bench/requirements.txt -e '.[cli,migrate]'
	@touch $@

bench/.venv/public: bench/.venv/installed bench/public/requirements.txt
	@bench/.venv/bin/python -m pip install -q -r bench/public/requirements.txt
	@touch $@

# Without Node, the benchmark reports its queues as missing.
bench/node_modules/installed: bench/package.json
	@mkdir -p bench/node_modules
	@if command -v npm >/dev/null; then \
	  cd bench && npm install --no-audit --no-fund --no-package-lock --loglevel=error; \
	else echo "npm is not installed, so the queues on Node are not measured" >&2; fi
	@touch $@
