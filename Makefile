# Two commands for a newcomer: `make demo` and `make test`. Each prepares .venv by itself.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
PEERS := .venv-peers
FLOWER := .venv-flower
TORCH := .venv-torch
# One thread a process: the suites run on several processes, and results do not depend on the core count. Compiled
# modules are kept, because every process of a suite imports the same ones.
SINGLE := OPENBLAS_NUM_THREADS=1 OMP_NUM_THREADS=1 MKL_NUM_THREADS=1 PYTHONDONTWRITEBYTECODE=

.PHONY: demo test coverage test-slow test-soak test-docs test-peers test-torch test-flower lint bench reproduce docs wheel clean

demo: $(VENV)/demo
	@$(BIN)/manyarms demo

test: $(VENV)/dev lint
	$(SINGLE) $(BIN)/python -m pytest -q -n auto -m "not slow and not soak"

# The quick tests once more, with the lines they run: build/coverage/index.html. The floor is in pyproject.toml.
coverage: $(VENV)/dev
	$(SINGLE) $(BIN)/python -m pytest -q -n auto -m "not slow and not soak" --cov --cov-report=term:skip-covered --cov-report=html

# Statistics, crashes, PostgreSQL, browsers, clusters.
test-slow: $(VENV)/dev
	$(SINGLE) $(BIN)/python -m pytest -q -n auto -m slow --durations=20

# Clusters whose workers die again and again, a service that is killed many times, long fuzzing.
test-soak: $(VENV)/dev
	$(SINGLE) $(BIN)/python -m pytest -q -n auto -m soak --durations=20

# Every example and command of the pages.
test-docs: $(VENV)/dev
	$(SINGLE) $(BIN)/python -m pytest -q -n auto -m "not soak" tests/docs

# The suites of other libraries on the plug-ins for them, in an environment of their own.
test-peers: $(PEERS)/peers
	$(SINGLE) SCIPY_ARRAY_API=1 $(PEERS)/bin/python -m pytest -q -rA tests/peers

# The page about BoTorch, Ax and BayBE, which need PyTorch.
test-torch: $(TORCH)/torch
	$(SINGLE) $(TORCH)/bin/python -m pytest -q -rA -o norecursedirs=".*" tests/torch

# Flower pins versions of libraries that the service needs newer, so it has an environment of its own.
test-flower: $(FLOWER)/flower
	$(SINGLE) $(FLOWER)/bin/python -m pytest -q -rA -o norecursedirs=".*" tests/flower

lint: $(VENV)/dev
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

bench: $(VENV)/dev
	$(SINGLE) $(BIN)/python -m benchmarks

# Every figure of docs/reproduction.md, into reproduction/; run it again to continue. `make reproduce DATA=DIR` names
# the folder with the real data (MANYARMS_DATA otherwise); figures whose data is missing are named and left out.
reproduce: $(VENV)/dev
	$(SINGLE) $(BIN)/manyarms reproduce all $(if $(DATA),--data-home $(DATA))

# The documentation site, build/docs/html/index.html; a warning or a broken link is an error.
docs: $(VENV)/docs
	$(BIN)/python -m sphinx -W --keep-going -q -b html docs build/docs/html
	$(BIN)/python -m sphinx -W --keep-going -q -b linkcheck docs build/docs/links

# A wheel and a source archive in dist/, installed and tried in an empty environment.
wheel:
	rm -rf dist build/wheel && $(PYTHON) -m venv build/wheel/build && $(PYTHON) -m venv build/wheel/use
	build/wheel/build/bin/python -m pip install --quiet --disable-pip-version-check build
	build/wheel/build/bin/python -m build --outdir dist .
	build/wheel/use/bin/python -m pip install --quiet --disable-pip-version-check "$$(echo dist/*.whl)[plots]"
	cd build/wheel && use/bin/manyarms --version && use/bin/python -I -m manyarms.demo

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

$(TORCH)/torch: pyproject.toml
	test -x $(TORCH)/bin/python || $(PYTHON) -m venv $(TORCH)
	$(TORCH)/bin/python -m pip install --quiet --disable-pip-version-check -e ".[torch]"
	@touch $@

$(FLOWER)/flower: pyproject.toml
	test -x $(FLOWER)/bin/python || $(PYTHON) -m venv $(FLOWER)
	$(FLOWER)/bin/python -m pip install --quiet --disable-pip-version-check -e ".[flower]" "pytest>=8.0"
	@touch $@

$(VENV)/docs: pyproject.toml | $(VENV)/bin/python
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -e ".[docs]"
	@touch $@

clean:
	rm -rf $(VENV) $(PEERS) $(FLOWER) $(TORCH) build dist .mypy_cache .ruff_cache .pytest_cache .hypothesis
