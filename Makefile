# make demo needs only Python 3.11 or newer; the rest is installed into .venv. make test also installs servers and a browser: .ci/services.
# One more than two cores: tests wait for servers, disks and other programs.
WORKERS ?= 3
COUNT ?= 100
SEED ?= 1
PY := .venv/bin/python
READY := .venv/.ready
COMPILED := .venv/compiled/.ready
SERVICES := .venv/.services
OLDEST := "duckdb==1.5.0" "sqlglot==30.0.0"
NEWEST := "duckdb==2.0.*" "sqlglot==30.30.*"
ENDS_TESTS := tests/sql tests/test_docs_sql.py tests/test_advice.py tests/engines tests/curator tests/cli/test_demo.py tests/e2e/test_readme.py tests/e2e/test_first_answers.py

# Python keeps what it compiled: to compile Lapwing takes longer than most programs that tests start.
export PYTHONDONTWRITEBYTECODE :=

.PHONY: help demo quick test test-all test-oldest test-newest check docs mutants release bench clean
.DEFAULT_GOAL := help
.DELETE_ON_ERROR:

help:  ## this list
	@grep -hE '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/^([a-z-]+):.*## */\1|/' | awk -F'|' '{printf "make %-11s %s\n", $$1, $$2}'

demo: $(READY)  ## the whole story on real data
	@.venv/bin/lapwing demo

quick: $(READY) $(COMPILED) $(SERVICES)  ## the tests of what changed since main, without Spark, browsers and long files
	@$(PY) -m pytest -n $(WORKERS) --dist worksteal -m "not slow" -k "not spark and not browser" $$($(PY) tests/support/changed.py)

test: $(READY) $(COMPILED) $(SERVICES)  ## the tests that run in minutes
	@$(PY) -m pytest -n $(WORKERS) --dist worksteal -m "not slow"

test-all: $(READY) $(COMPILED) $(SERVICES)  ## all tests, the slow ones too
	@$(PY) -m pytest -n $(WORKERS) --dist worksteal

test-oldest: .venv/oldest/.ready  ## what uses DuckDB and sqlglot, with the oldest ones supported
test-newest: .venv/newest/.ready  ## the same with the newest ones
test-oldest test-newest: test-%:
	@PYTHONPATH=.venv/$* $(PY) -m pytest -n $(WORKERS) --dist worksteal -m "not slow" -k "not spark and not postgres" $(ENDS_TESTS)

check: $(READY) $(SERVICES)  ## lint, format and types
	@$(PY) -m ruff check .
	@$(PY) -m ruff format --check .
	@$(PY) -m mypy

docs: $(READY)  ## the pages of docs/ as a site that opens without a network, in site/
	@$(PY) -m pip install --quiet --disable-pip-version-check '.[docs]'
	@.venv/bin/zensical build --clean
	@$(PY) docs/check_site.py

mutants: $(READY)  ## break the code on purpose, as planned and at random, and list what no test notices
	@WORKERS=$(WORKERS) $(PY) tests/mutation/run.py
	@WORKERS=$(WORKERS) $(PY) tests/mutation/draw.py --count $(COUNT) --seed $(SEED)

release: $(READY)  ## wheel and sdist: they build, install into an empty environment and run the demo
	@.ci/release

bench: $(READY)  ## every benchmark, beside the peers
	@set -e; for file in benchmarks/*.py; do echo "== $$file"; $(PY) "$$file"; done

clean:  ## remove everything that make created
	rm -rf .venv site benchmarks/.venvs benchmarks/.data build dist .mutants.jsonl .pytest_cache .mypy_cache .ruff_cache .hypothesis
	find . -name __pycache__ -type d -prune -exec rm -rf {} +

$(READY): pyproject.toml
	@set -e; venv="$(@D)"; python=; \
	if ! "$$venv/bin/python" -c 'import pip, sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null; then \
	  for name in python3 python3.11 python3.12 python3.13 python3.14; do \
	    if "$$name" -c 'import ensurepip, sys, venv; sys.exit(sys.version_info < (3, 11))' 2>/dev/null; then python=$$name; break; fi; \
	  done; \
	  if [ -z "$$python" ]; then \
	    echo "Lapwing needs Python 3.11 or newer with the venv module, and found none as python3, python3.11, python3.12, python3.13 or python3.14." >&2; \
	    echo "Install it (Debian and Ubuntu: python3 and python3-venv), put it on PATH and run make again." >&2; \
	    exit 1; \
	  fi; \
	  echo "Creating $$venv with $$("$$python" --version)"; \
	  "$$python" -m venv --clear "$$venv"; \
	fi; \
	echo "Installing Lapwing and what it needs into $$venv (once; a minute or two)"; \
	"$$venv/bin/python" -m pip install --quiet --disable-pip-version-check --editable '.[dev]'; \
	touch $@

# sqlglot as pip install "sqlglot[c]" has it, beside the plain one: tests/e2e/test_compiled.py asks questions with both.
$(COMPILED): $(READY)
	@set -e; version=$$($(PY) -c 'from importlib.metadata import version; print(version("sqlglot"))'); \
	$(PY) -m pip install --quiet --disable-pip-version-check --no-deps --upgrade --target "$(@D)" \
	  "sqlglot==$$version" "sqlglotc==$$version"; \
	touch $@

# One DuckDB and one sqlglot each, before those in .venv.
.venv/oldest/.ready: VERSIONS := $(OLDEST)
.venv/newest/.ready: VERSIONS := $(NEWEST)
.venv/oldest/.ready .venv/newest/.ready: $(READY) Makefile
	@$(PY) -m pip install --quiet --disable-pip-version-check --no-deps --upgrade --target "$(@D)" $(VERSIONS)
	@touch $@

# PostgreSQL, Spark, a browser and a server, with their Python packages.
$(SERVICES): $(READY) .ci/services
	@echo "Installing the engines, servers and the browser that tests use (once; a few minutes)"
	@$(PY) -m pip install --quiet --disable-pip-version-check --editable '.[dev,services]'
	@.ci/services
	@touch $@
