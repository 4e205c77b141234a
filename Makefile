# One command each: `make demo`, `make test`, `make check`. A fresh clone needs Python 3.11+ and make, nothing else.
SHELL := bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := help
.DELETE_ON_ERROR:

UV := .bootstrap/bin/uv
BIN := .venv/bin
PINS := requirements/uv.txt requirements/build.txt
INSTALL := $(UV) pip install --quiet --python .venv
LOCK := $(UV) pip compile --quiet --universal --python-version 3.11 --generate-hashes --no-header --no-annotate
ARGS ?=

# Never fetch an interpreter of its own; never warn that the cache lies on another disk.
export UV_PYTHON_DOWNLOADS := never
export UV_LINK_MODE := copy
# Every process that a demo or a test starts would compile all that it imports again: seconds each.
unexport PYTHONDONTWRITEBYTECODE

.PHONY: help demo demo-pg test check format lock bench image system clean

help: ## what can be made
	@grep -hE '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | sed -E 's/^([a-z-]+):.*## /\1\t/' | awk -F'\t' '{printf "  make %-9s %s\n", $$1, $$2}'

demo: .venv/.demo ## Holdtrue at work on a refunds service with real races, on SQLite
	$(BIN)/holdtrue demo $(ARGS)

demo-pg: .venv/.demo ## the same on a real PostgreSQL primary with a streaming replica
	$(BIN)/holdtrue demo --postgres $(ARGS)

test: .venv/.dev system ## every test, on two cores; ARGS="tests/unit -x" runs some, ARGS="-n 0" one by one
	$(BIN)/python -m pytest -n 2 --dist loadfile --no-loadscope-reorder $(ARGS)

check: .venv/.dev ## style, formatting, types and import contracts
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports

format: .venv/.dev ## put the code in order
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

bench: .venv/.dev ## the measurements of bench/; ARGS=bench/round.py makes one
	for one in $(or $(ARGS),bench/*.py); do $(BIN)/python $$one; done

lock: .bootstrap/.uv ## pin every dependency again (ARGS=--upgrade for the newest)
	$(LOCK) $(ARGS) --extra service pyproject.toml --output-file requirements/run.txt
	$(LOCK) $(ARGS) --extra demo pyproject.toml --constraint requirements/run.txt --output-file requirements/demo.txt
	$(LOCK) $(ARGS) --extra dev pyproject.toml --constraint requirements/demo.txt --output-file requirements/dev.txt
	$(LOCK) $(ARGS) requirements/build.in --output-file requirements/build.txt
	$(LOCK) $(ARGS) requirements/uv.in --output-file requirements/uv.txt

image: ## the container image
	docker build --tag holdtrue:dev .

system: ## the programs that tests drive and no wheel has: a browser, Prometheus, Alertmanager, MariaDB, PgBouncer …
	@scripts/system-deps

clean: ## everything that make brought in
	rm -rf .venv .bootstrap .cache

.bootstrap/.uv: requirements/uv.txt scripts/bootstrap
	scripts/bootstrap
	touch $@

.venv/.python: .bootstrap/.uv
	test -x $(BIN)/python || $(UV) venv --quiet --python "$$(scripts/find-python)" .venv
	touch $@

.venv/.demo: .venv/.python pyproject.toml requirements/demo.txt $(PINS)
	$(INSTALL) --require-hashes --requirement requirements/demo.txt
	$(INSTALL) --no-deps --build-constraints requirements/build.txt --editable .
	touch $@

# What dev.txt pins it pins as demo.txt does, so that this satisfies both.
.venv/.dev: .venv/.python pyproject.toml requirements/demo.txt requirements/dev.txt $(PINS)
	$(INSTALL) --require-hashes --requirement requirements/dev.txt
	$(INSTALL) --no-deps --build-constraints requirements/build.txt --editable .
	touch .venv/.demo $@
