# Everything here works in a fresh checkout with Python 3.11 or later and no settings.
PYTHON ?= python3
python := .venv/bin/python
export PIP_DISABLE_PIP_VERSION_CHECK := 1

.DEFAULT_GOAL := help
.PHONY: help demo test check schema witness wheel-demo clean

help: ## list what can be made
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-11s %s\n", $$1, $$2 }' Makefile

demo: .venv/installed ## see locks keep the alphabet in order (ten seconds)
	@.venv/bin/queue demo

test: .venv/installed ## run all tests on an embedded PostgreSQL
	@$(python) -m pytest

check: .venv/installed ## lint, format, types, layers
	@echo "ruff check"   && $(python) -m ruff check --quiet
	@echo "ruff format"  && $(python) -m ruff format --check --quiet
	@echo "mypy"         && $(python) -m mypy
	@echo "lint-imports" && .venv/bin/lint-imports --no-logo

schema: .venv/installed ## write sql/schema.sql anew from the migrations and functions
	@$(python) tests/snapshot.py

witness: .venv/installed ## look for overlaps of locks under load (8 processes x 30 s for each kind)
	@INTURN_WITNESS_PROCESSES=8 INTURN_WITNESS_SECONDS=30 $(python) -m pytest tests/locks/test_witness.py -s -k nobody

# A checkout finds files that a wheel might lack, so CI tries the wheel: fresh environment, empty folder.
wheel-demo: .venv/installed ## build the wheel and run the demo from it
	@set -e; tmp=$$(mktemp -d); trap 'rm -rf "$$tmp"' EXIT; mkdir "$$tmp/empty"; \
	echo "building the wheel"; \
	$(python) -m pip wheel -q . --no-deps --wheel-dir "$$tmp"; \
	wheel=$$(ls "$$tmp"/*.whl); \
	echo "installing $$(basename "$$wheel") into a fresh environment"; \
	$(python) -m venv "$$tmp/venv"; \
	"$$tmp/venv/bin/python" -m pip install -q "$${wheel}[dev]"; \
	cd "$$tmp/empty"; "$$tmp/venv/bin/queue" demo

clean: ## remove the environment and every cache
	@rm -rf .venv build dist .pytest_cache .mypy_cache .ruff_cache .import_linter_cache .hypothesis
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
