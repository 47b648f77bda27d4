# The two commands of the README. Everything that is needed is installed into .venv from here.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
INSTALL := $(BIN)/python -m pip install --quiet --disable-pip-version-check --constraint constraints.txt

.PHONY: run test lint clean

run: $(VENV)/.runtime
	$(BIN)/ideaw demo

test: $(VENV)/.dev lint
	$(BIN)/python -m pytest

lint: $(VENV)/.dev
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

$(VENV)/bin/python:
	$(PYTHON) -m venv $(VENV)

$(VENV)/.runtime: pyproject.toml constraints.txt | $(VENV)/bin/python
	$(INSTALL) --editable .
	touch $@

# torch first and alone, so that nothing else decides which torch comes.
$(VENV)/.dev: pyproject.toml constraints.txt | $(VENV)/bin/python
	$(INSTALL) torch==2.13.0
	$(INSTALL) --editable ".[dev]"
	touch $@ $(VENV)/.runtime

clean:
	rm -rf $(VENV) build dist runs
