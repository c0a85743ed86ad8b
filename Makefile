# On a fresh machine with Python 3.11 or newer: `make demo` and `make test` need nothing else.
PYTHON ?= $(shell command -v python3.11 || command -v python3)
BIN := .venv/bin

.PHONY: demo test lint docs bench clean
.DEFAULT_GOAL := demo

demo: .venv/core.stamp  ## run the main job on the built-in data set
	$(BIN)/cosmo run glyphs --out cosmo-runs/demo

test: .venv/dev.stamp  ## run all tests (those on real data skip where it is absent)
	OMP_NUM_THREADS=1 $(BIN)/python -m pytest -n auto --dist loadfile

lint: .venv/dev.stamp
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

docs: .venv/dev.stamp  ## build the pages into build/site
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict --quiet

bench: .venv/core.stamp
	$(BIN)/python benchmarks/selection.py
	$(BIN)/python benchmarks/lago.py
	$(BIN)/python benchmarks/streaming.py

clean:
	rm -rf .venv cosmo-runs build dist

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
