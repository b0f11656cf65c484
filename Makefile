# Two commands for a newcomer: `make demo` and `make test`. Each prepares .venv by itself.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
PEERS := .venv-peers
FLOWER := .venv-flower
# One thread a process: the suites run on several processes, and results do not depend on the core count.
SINGLE := OPENBLAS_NUM_THREADS=1 OMP_NUM_THREADS=1 MKL_NUM_THREADS=1

.PHONY: demo test test-slow test-peers test-flower lint bench clean

demo: $(VENV)/demo
	@$(BIN)/manyarms demo

test: $(VENV)/dev lint
	$(SINGLE) $(BIN)/python -m pytest -q -n auto -m "not slow"

test-slow: $(VENV)/dev
	$(SINGLE) $(BIN)/python -m pytest -q -n auto -m slow

# The suites of other libraries on the plug-ins for them, in an environment of their own.
test-peers: $(PEERS)/peers
	$(SINGLE) SCIPY_ARRAY_API=1 $(PEERS)/bin/python -m pytest -q -rA tests/peers

# Flower pins versions of libraries that the service needs newer, so it has an environment of its own.
test-flower: $(FLOWER)/flower
	$(SINGLE) $(FLOWER)/bin/python -m pytest -q -rA -o norecursedirs=".*" tests/flower

lint: $(VENV)/dev
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

bench: $(VENV)/dev
	$(SINGLE) $(BIN)/python -m benchmarks

$(VENV)/bin/python:
	$(PYTHON) -m venv $(VENV)

$(VENV)/demo: pyproject.toml | $(VENV)/bin/python
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -e ".[serve]"
	@touch $@

$(VENV)/dev: pyproject.toml | $(VENV)/bin/python
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -e ".[dev]"
	@touch $@ $(VENV)/demo

$(PEERS)/peers: pyproject.toml
	test -x $(PEERS)/bin/python || $(PYTHON) -m venv $(PEERS)
	$(PEERS)/bin/python -m pip install --quiet --disable-pip-version-check -e ".[peers]"
	@touch $@

$(FLOWER)/flower: pyproject.toml
	$(PYTHON) -m venv $(FLOWER)
	$(FLOWER)/bin/python -m pip install --quiet --disable-pip-version-check -e ".[flower]" "pytest>=8.0"
	@touch $@

clean:
	rm -rf $(VENV) $(PEERS) $(FLOWER) build dist .mypy_cache .ruff_cache .pytest_cache .hypothesis
