# Everything here works in a fresh checkout with Python 3.11 or later and no settings.
PYTHON ?= python3
python := .venv/bin/python
PARALLEL := -n logical --dist worksteal
export PIP_DISABLE_PIP_VERSION_CHECK := 1

.DEFAULT_GOAL := help
.PHONY: help demo test stress witness check bench bench-growth bench-scale schema docs patroni wheel-demo lock locked clean

help: ## list what can be made
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-13s %s\n", $$1, $$2 }' Makefile

demo: .venv/installed ## see locks keep the alphabet in order (ten seconds)
	@.venv/bin/queue demo

# Most tests wait for servers, so one process for each core takes about half as long. TESTS="tests/race -k retry" runs some.
test: .venv/installed ## run all tests on an embedded PostgreSQL
	@$(python) -m pytest $(or $(TESTS),$(PARALLEL))

# The same as a part of `make test`, for longer; a seed repeats the dice, not the timing.
stress: .venv/installed ## ten minutes of everything at once (SECONDS=600 SEED=...), then growth to a million jobs
	@INTURN_STRESS_SECONDS=$(or $(SECONDS),600) INTURN_STRESS_SEED=$(SEED) $(python) -m pytest -q tests/flow/test_stress.py
	@INTURN_TEST_GROWTH=1000000 $(python) -m pytest -q tests/sql/test_growth.py

patroni: .venv/installed ## fail over for real: three nodes under Patroni (Debian's packages; it names what is missing)
	@$(python) -m tests.failover.patroni

# The short form is a part of `make test`. ONLY="a worker is killed" inflicts that kind alone; a seed repeats the dice.
.PHONY: chaos
chaos: .venv/installed ## ten minutes of faults of every kind, and a judge of the history (SECONDS=600 SEED=... ONLY=...)
	@$(python) -m tests.chaos --seconds $(or $(SECONDS),600) $(if $(SEED),--seed "$(SEED)") $(if $(ONLY),--only "$(ONLY)")

check: .venv/installed ## lint, format, types, layers
	@echo "ruff check"   && $(python) -m ruff check --quiet
	@echo "ruff format"  && $(python) -m ruff format --check --quiet
	@echo "mypy"         && $(python) -m mypy
	@echo "lint-imports" && .venv/bin/lint-imports --no-logo

# QUICK=1 is for trying. ROUNDS, ONLY (rows), PEERS; ROWS: share of the jobs; INTURN_SOURCE: another checkout to measure;
# BASE: one to set beside it.
bench: bench/.venv/installed bench/node_modules/installed ## measure beside other queues (half an hour; QUICK=1: a minute)
	@bench/.venv/bin/python -m bench $(if $(QUICK),--quick) $(if $(ROUNDS),--rounds $(ROUNDS)) $(if $(ONLY),--only $(ONLY)) \
	  $(if $(PEERS),--peers $(PEERS)) $(if $(ROWS),--share $(ROWS))

bench-growth: bench/.venv/installed ## what a call costs against how full the tables are (FULL=1: ten million finished jobs)
	@bench/.venv/bin/python -m bench.growth $(if $(QUICK),--quick) $(if $(FULL),--full) $(if $(ONLY),--only $(ONLY))

bench-scale: bench/.venv/installed ## how throughput grows with workers and lanes, and where the time of a job goes
	@bench/.venv/bin/python -m bench.scale $(if $(ROUNDS),--rounds $(ROUNDS))
	@bench/.venv/bin/python -m bench.handover
	@bench/.venv/bin/python -m bench.parts

schema: .venv/installed ## write sql/schema.sql anew from the migrations and functions
	@$(python) tests/snapshot.py

docs: .venv/installed ## write docs/api.md anew from the docstrings
	@$(python) -m tests.reference

witness: .venv/installed ## look for overlaps of locks under load (8 processes x 30 s for each kind)
	@INTURN_WITNESS_PROCESSES=8 INTURN_WITNESS_SECONDS=30 $(python) -m pytest tests/locks/test_witness.py -s -k nobody

# A checkout finds files that a wheel might lack, so CI tries the wheel: fresh environment, empty folder. LOCKED=1: with what
# requirements/demo.txt names, and `pip check` says whether that is what the wheel asks for.
wheel-demo: .venv/installed ## build the wheel and run the demo from it
	@set -e; tmp=$$(mktemp -d); trap 'rm -rf "$$tmp"' EXIT; mkdir "$$tmp/empty"; \
	echo "building the wheel"; \
	$(python) -m pip wheel -q . --no-deps $(if $(LOCKED),--no-build-isolation) --wheel-dir "$$tmp"; \
	wheel=$$(ls "$$tmp"/*.whl); \
	echo "installing $$(basename "$$wheel") into a fresh environment"; \
	$(python) -m venv "$$tmp/venv"; pip="$$tmp/venv/bin/python -m pip"; \
	if [ -n "$(LOCKED)" ]; then \
	  $$pip install -q --require-hashes -r requirements/demo.txt; $$pip install -q --no-deps "$$wheel"; $$pip check; \
	else $$pip install -q "$${wheel}[dev]"; fi; \
	cd "$$tmp/empty"; "$$tmp/venv/bin/queue" demo

# Names no registry: which one is asked is a setting of pip's and uv's. SSL_CERT_FILE names certificates to uv.
lock: ## resolve anew what CI and docker compose install, and write requirements/*.txt
	@set -e; tmp=$$(mktemp -d); trap 'rm -rf "$$tmp"' EXIT; \
	$(PYTHON) -m venv "$$tmp"; "$$tmp/bin/python" -m pip install -q uv; \
	compile() { "$$tmp/bin/uv" pip compile -q --upgrade --universal --python-version 3.11 --generate-hashes --no-header \
	  --no-emit-index-url pyproject.toml requirements/build.in "$$@"; }; \
	compile requirements/audit.in --extra dev --extra test -o requirements/ci.txt; \
	compile -c requirements/ci.txt --extra dev -o requirements/demo.txt; \
	compile -c requirements/ci.txt --extra redis -o requirements/compose.txt

locked: ## prepare .venv with exactly what requirements/ci.txt names, as CI does
	@test -x $(python) || $(PYTHON) -m venv .venv
	@$(python) -m pip install -q --require-hashes -r requirements/ci.txt
	@$(python) -m pip install -q --no-deps --no-build-isolation -e .
	@touch .venv/installed

clean: ## remove the environment and every cache
	@rm -rf .venv bench/.venv bench/node_modules build dist .pytest_cache .mypy_cache .ruff_cache .import_linter_cache .hypothesis
	@find queue tests migrations -name __pycache__ -type d -prune -exec rm -rf {} + 2>/dev/null || true

# The stamp is written last, so that an interrupted installation is done again. `command -v`, because a Python that is
# started by its bare name without a PATH does not know where it is, and then cannot make an environment.
.venv/installed: pyproject.toml
	@python=$$(command -v "$(PYTHON)") && "$$python" -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { \
	  echo "inturn needs Python 3.11 or later, and $(PYTHON) is not. Name another: make PYTHON=python3.12" >&2; exit 1; }; \
	echo "preparing .venv (once, about a minute)" && \
	{ test -x $(python) || "$$python" -m venv .venv; } && \
	$(python) -m pip install -q -e '.[dev,test]' && \
	touch $@

# The other queues stay out of our own environment: they are measured, not used.
bench/.venv/installed: pyproject.toml bench/requirements.txt
	@echo "preparing bench/.venv (once, about a minute)"
	@test -x bench/.venv/bin/python || $(PYTHON) -m venv bench/.venv
	@bench/.venv/bin/python -m pip install -q -r bench/requirements.txt -e .
	@touch $@

# Without Node its queues are named as missing.
bench/node_modules/installed: bench/package.json
	@mkdir -p bench/node_modules
	@if command -v npm >/dev/null; then cd bench && npm install --no-audit --no-fund --no-package-lock --loglevel=error; \
	else echo "there is no npm: measuring without the queues on Node" >&2; fi
	@touch $@
