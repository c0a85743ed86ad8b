# On a fresh machine with Python 3.11 or newer: `make demo` and `make test` need nothing else.
PYTHON ?= $(shell command -v python3.11 || command -v python3)
BIN := .venv/bin

.PHONY: demo test test-quick test-min coverage mutants audit soak lint docs bench dist test-wheel clean help
.DEFAULT_GOAL := demo

demo: .venv/core.stamp  ## train and evaluate on the built-in data set
	$(BIN)/cosmo run glyphs --out cosmo-runs/demo
	@echo "open cosmo-runs/demo/report.html; the command is $(BIN)/cosmo, or cosmo after . $(BIN)/activate"

test: .venv/dev.stamp  ## run all tests (those on real data skip where it is absent)
	OMP_NUM_THREADS=1 $(BIN)/python -m pytest -n auto --dist loadfile

test-quick: .venv/dev.stamp  ## run the fast tests of tests/quick.txt, in less than a minute
	OMP_NUM_THREADS=1 $(BIN)/python -m pytest -n 2 -q @tests/quick.txt

test-min: .venv-min/stamp  ## run all tests with the oldest supported versions of the dependencies
	OMP_NUM_THREADS=1 .venv-min/bin/python -m pytest -n auto --dist loadfile -W default

coverage: .venv/soak.stamp  ## measure the branch coverage of the tests
	OMP_NUM_THREADS=1 $(BIN)/python -m pytest -n auto --dist loadfile --cov=cosmo --cov-branch --cov-report=term:skip-covered

mutants: .venv-mutants/stamp  ## mutation testing of mixture, metrics and gates
	OMP_NUM_THREADS=1 .venv-mutants/bin/python soak/mutants.py

audit: .venv/soak.stamp  ## look up known vulnerabilities of the installed packages
	$(BIN)/pip-audit --strict --skip-editable

soak: .venv/soak.stamp  ## run the long trials: hostile files, kills, full disks, load
	$(BIN)/python -m soak

lint: .venv/dev.stamp  ## run ruff, mypy and import-linter
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports

docs: .venv/dev.stamp  ## build the documentation into build/site
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict

bench: .venv/dev.stamp  ## run all benchmarks and write docs/results/performance.md
	$(BIN)/python benchmarks/report.py docs/results/performance.md

dist: .venv/dev.stamp  ## build wheel and sdist into dist
	rm -rf dist
	$(BIN)/python -m build --outdir dist

test-wheel: dist  ## install the wheel into an empty environment and run all starters
	$(BIN)/python -m soak.wheel dist/*.whl

help:  ## list the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / {printf "%-12s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

clean:  ## remove environments, builds and runs
	rm -rf .venv .venv-min .venv-mutants mutants cosmo-runs build dist

.venv/bin/python:
	$(PYTHON) -m venv .venv
	$(BIN)/python -m pip install --quiet --upgrade pip

.venv/core.stamp: pyproject.toml | .venv/bin/python
	$(BIN)/python -m pip install --quiet -e .
	touch $@

.venv/dev.stamp: pyproject.toml | .venv/bin/python
	$(BIN)/python -m pip install --quiet "torch==2.13.0"
	$(BIN)/python -m pip install --quiet -e ".[dev]"
	touch $@ .venv/core.stamp

.venv/soak.stamp: .venv/dev.stamp
	$(BIN)/python -m pip install --quiet -e ".[soak]"
	touch $@

.venv-min/stamp: pyproject.toml constraints-oldest.txt
	$(PYTHON) -m venv .venv-min
	.venv-min/bin/python -m pip install --quiet --upgrade pip
	.venv-min/bin/python -m pip install --quiet "torch==2.13.0" -c constraints-oldest.txt
	.venv-min/bin/python -m pip install --quiet -e ".[dev]" -c constraints-oldest.txt
	touch $@

.venv-mutants/stamp: pyproject.toml
	$(PYTHON) -m venv .venv-mutants
	.venv-mutants/bin/python -m pip install --quiet --upgrade pip
	.venv-mutants/bin/python -m pip install --quiet -e . "pytest<9" hypothesis mutmut
	touch $@
