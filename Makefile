# Every target sets up what it needs; nothing else has to be installed or started first.
PYTHON ?= python3
VENV   ?= .venv
BIN    := $(VENV)/bin
READY  := $(VENV)/.ready

.PHONY: demo test test-all prove check emulator clean

demo: $(READY)
	$(BIN)/python -m projections demo

test: $(READY)
	$(BIN)/python -m pytest -m "not slow"

test-all: $(READY)
	$(BIN)/python -m pytest

prove: $(READY)
	$(BIN)/python -m tests.prove

check: $(READY)
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(BIN)/python -m pytest -m "not slow"

emulator: $(READY)
	$(BIN)/python -m projections emulator

clean:
	rm -rf $(VENV) .mypy_cache .pytest_cache .ruff_cache build *.egg-info
	find . -name __pycache__ -type d -prune -exec rm -rf {} +

$(READY): pyproject.toml requirements.txt
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable '.[dev]'
	# the official worker library says it needs Python 3.13, and works on 3.11: the tests run the app under it
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --ignore-requires-python --no-deps \
		'azure-functions-runtime>=1.0' 'azurefunctions-extensions-base>=1.2'
	touch $@
